//! The units of keys. The kernel's numbers have none of their own but for `.usecs`.

use super::bucket::log2_range;
use super::fold::SelectionError;
use super::{EntryKey, FieldModifier, TriggerField};
use crate::sink::style::Style;
use crate::sink::units;

/// What the numbers of a key are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Unit {
    /// Plain numbers
    #[default]
    None,
    /// Nanoseconds
    Ns,
    /// Microseconds
    Us,
}

impl Unit {
    fn ns(self, value: u64) -> u64 {
        if self == Self::Us { value.saturating_mul(1_000) } else { value }
    }

    /// A bound of a bucket.
    pub fn bound(self, value: u64, style: &Style) -> String {
        match self {
            Self::None => units::thousands(value),
            Self::Ns | Self::Us => units::bound(self.ns(value), style.unicode),
        }
    }

    fn exact(self, value: u64, style: &Style) -> String {
        match self {
            Self::None => value.to_string(),
            Self::Ns | Self::Us => units::exact(self.ns(value), style.unicode),
        }
    }
}

/// The unit of each key: the trigger's own (`.usecs`), and `asked` for the keys that are buckets, or for the only key.
///
/// # Errors
/// If `asked` could be the unit of any of several keys.
pub fn units_of(keys: &[TriggerField], asked: Option<Unit>) -> Result<Vec<Unit>, SelectionError> {
    let is_bucket = |key: &TriggerField| matches!(key.modifier, Some(FieldModifier::Log2 | FieldModifier::Buckets(_)));
    let is_number = |key: &TriggerField| key.modifier.is_none() && !key.is_stack();
    let plain = keys.iter().filter(|key| is_number(key)).count();
    let any_bucket = keys.iter().any(is_bucket);
    if asked.is_some_and(|unit| unit != Unit::None) && !any_bucket && plain > 1 {
        return Err(SelectionError::Unit(
            keys.iter().filter(|key| is_number(key)).map(TriggerField::to_string).collect(),
        ));
    }
    let unit = |key: &TriggerField| match key.modifier {
        Some(FieldModifier::Usecs) => asked.unwrap_or(Unit::Us),
        _ if is_bucket(key) || is_number(key) && !any_bucket => asked.unwrap_or_default(),
        _ => Unit::None,
    };
    Ok(keys.iter().map(unit).collect())
}

/// A key on one line; of a stack, its innermost function.
pub fn key_text(key: &EntryKey, unit: Unit, style: &Style) -> String {
    match key {
        EntryKey::Number(number) => unit.exact(*number, style),
        EntryKey::Hex(number) => format!("{number:#x}"),
        EntryKey::Log2(power) => range_text(log2_range(*power), unit, style),
        EntryKey::Range(from, to) => range_text((*from, *to), unit, style),
        EntryKey::Text(text) => text.clone(),
        EntryKey::Symbol { name, .. } => name.clone(),
        EntryKey::Execname { comm, tid } => format!("{comm} [{tid}]"),
        EntryKey::Syscall { name, .. } => name.clone(),
        EntryKey::Stack(functions) => functions.first().cloned().unwrap_or_default(),
    }
}

/// Smallest and largest value of a bucket.
pub fn range_text((from, to): (u64, u64), unit: Unit, style: &Style) -> String {
    format!("{} {} {}", unit.bound(from, style), style.pick('–', '-'), unit.bound(to, style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::TriggerSpec;

    fn units(trigger: &str, asked: Option<Unit>) -> Option<Vec<Unit>> {
        units_of(&TriggerSpec::parse(trigger).unwrap().keys, asked).ok()
    }

    #[test]
    fn a_unit_is_that_of_the_buckets_or_of_the_only_number() {
        assert_eq!(units("hist:keys=pid,lat.log2", Some(Unit::Ns)), Some(vec![Unit::None, Unit::Ns]));
        assert_eq!(units("hist:keys=lat", Some(Unit::Us)), Some(vec![Unit::Us]));
        assert_eq!(units("hist:keys=lat,comm.execname", Some(Unit::Us)), Some(vec![Unit::Us, Unit::None]));
        assert_eq!(units("hist:keys=pid,prio,lat", Some(Unit::Us)), None);
        assert_eq!(units("hist:keys=pid,prio,lat", None), Some(vec![Unit::None; 3]));
    }

    #[test]
    fn a_trigger_in_microseconds_needs_no_flag() {
        assert_eq!(units("hist:keys=common_timestamp.usecs", None), Some(vec![Unit::Us]));
        let style = Style { unicode: true, ..Style::default() };
        assert_eq!(key_text(&EntryKey::Number(39_960), Unit::Us, &style), "39.96 ms");
        assert_eq!(key_text(&EntryKey::Number(39_960), Unit::None, &style), "39960");
    }
}
