//! The units of keys. The kernel's numbers carry no unit, except with `.usecs`.

use super::chart_rows::SelectionError;
use super::log2_bucket::log2_range;
use super::{EntryKey, FieldModifier, TriggerField};
use wakelat_core::render::style::Style;
use wakelat_core::render::units;

/// The unit of a key's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers.
    #[default]
    None,
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
}

impl Unit {
    fn ns(self, value: u64) -> u64 {
        if self == Self::Us { value.saturating_mul(1_000) } else { value }
    }

    /// Formats a bound of a bucket.
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

/// The unit of each key: `requested` for keys that are buckets, or else for the only plain number; without
/// `requested`, that of the trigger (`.usecs`).
///
/// # Errors
/// If `requested` could apply to any of several keys.
pub fn units_of(keys: &[TriggerField], requested: Option<Unit>) -> Result<Vec<Unit>, SelectionError> {
    let is_bucket = |key: &TriggerField| matches!(key.modifier, Some(FieldModifier::Log2 | FieldModifier::Buckets(_)));
    let is_number = |key: &TriggerField| key.modifier.is_none() && !key.is_stack();
    let plain = keys.iter().filter(|key| is_number(key)).count();
    let any_bucket = keys.iter().any(is_bucket);
    if requested.is_some_and(|unit| unit != Unit::None) && !any_bucket && plain > 1 {
        return Err(SelectionError::Unit(
            keys.iter().filter(|key| is_number(key)).map(TriggerField::to_string).collect(),
        ));
    }
    let unit = |key: &TriggerField| match key.modifier {
        Some(FieldModifier::Usecs) => requested.unwrap_or(Unit::Us),
        _ if is_bucket(key) || is_number(key) && !any_bucket => requested.unwrap_or_default(),
        _ => Unit::None,
    };
    Ok(keys.iter().map(unit).collect())
}

/// Formats a key on one line; a stack is represented by its innermost function.
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

/// Formats the smallest and largest value of a bucket.
pub fn range_text((from, to): (u64, u64), unit: Unit, style: &Style) -> String {
    format!("{} {} {}", unit.bound(from, style), style.pick('–', '-'), unit.bound(to, style))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hist_trigger::TriggerSpec;

    fn units(trigger: &str, requested: Option<Unit>) -> Option<Vec<Unit>> {
        units_of(&TriggerSpec::parse(trigger).unwrap().keys, requested).ok()
    }

    #[test]
    fn a_unit_applies_to_the_buckets_or_to_the_only_number() {
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
