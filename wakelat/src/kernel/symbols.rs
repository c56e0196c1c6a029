//! Names of the kernel's functions: `/proc/kallsyms`. A line a symbol, which needs no library; the kernel's own table is
//! right for modules and BPF programs too.

use std::collections::BTreeMap;

/// The functions by where they begin.
#[derive(Clone, Debug, Default)]
pub struct Symbols(BTreeMap<u64, String>);

impl Symbols {
    /// The running kernel's; none of them where it keeps the addresses to itself.
    pub fn of_kernel() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// Reads `ADDRESS TYPE NAME[\t[MODULE]]` (`s_show`, kernel/kallsyms.c). What is no code, or has no address as with
    /// `kernel.kptr_restrict`, is passed over.
    fn parse(kallsyms: &str) -> Self {
        let symbol = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
            let kind = words.next()?;
            "tTwW".contains(kind).then_some((address, words.next()?.to_owned()))
        };
        let mut symbols = BTreeMap::new();
        for (address, name) in kallsyms.lines().filter_map(symbol) {
            // Of several names for one place, the first is the function's own.
            symbols.entry(address).or_insert(name);
        }
        Self(symbols)
    }

    /// Whether none is known: the kernel keeps their addresses to itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that an address is in.
    pub fn name_of(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back().map(|(_, name)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let symbols = Symbols::parse(
            "ffffffff81000000 T _stext\nffffffff81000100 t timerlat_irq\nffffffff81000100 t alias\n\
             ffffffff81000200 D data\nffffffffc0000000 t dummy_load\t[dummy]\n0000000000000000 T hidden\n",
        );
        let names =
            [0xffff_ffff_8100_0123, 0xffff_ffff_8100_0210, 0xffff_ffff_c000_0001, 5].map(|at| symbols.name_of(at));
        assert_eq!(names, [Some("timerlat_irq"), Some("timerlat_irq"), Some("dummy_load"), None]);
    }
}
