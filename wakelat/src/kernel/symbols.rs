//! Names of the kernel's functions: `/proc/kallsyms`. A line a symbol, which needs no library; the kernel's own table is
//! right for modules and BPF programs too.

use std::{collections::BTreeMap, fs};

/// The functions by where they begin, and where no function is: none there.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols(BTreeMap<u64, Option<String>>);

/// The symbols that end a section of code: they have the type of a function (include/asm-generic/vmlinux.lds.h).
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// Code that belongs to no module and is no part of the kernel's image, such as BPF programs (`[bpf]`), comes in pieces of at most
/// this size: bytes (`BPF_PROG_PACK_SIZE`, kernel/bpf/core.c).
const PIECE: u64 = 2 << 20;

/// A line of `/proc/kallsyms`: `ADDRESS TYPE NAME[\t[MODULE]]` (`s_show`, kernel/kallsyms.c).
struct Symbol<'a> {
    address: u64,
    /// None where it is no function.
    function: Option<&'a str>,
    module: Option<&'a str>,
}

impl<'a> Symbol<'a> {
    /// Nothing of a symbol without an address, as with `kernel.kptr_restrict`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
        let is_code = "tTwW".contains(words.next()?);
        let function = words.next().filter(|name| is_code && !ENDS.contains(name));
        Some(Self { address, function, module: words.next() })
    }
}

impl KernelSymbols {
    /// The running kernel's; none of them where it keeps the addresses to itself.
    pub fn of_kernel() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self::parse(&read("/proc/kallsyms"), &read("/proc/modules"))
    }

    /// A function ends where the next symbol is, be it no function, or where its module ends.
    fn parse(kallsyms: &str, modules: &str) -> Self {
        let mut symbols: Vec<Symbol> = kallsyms.lines().filter_map(Symbol::parse).collect();
        symbols.sort_by_key(|symbol| symbol.address);
        let ends: BTreeMap<&str, u64> = modules.lines().filter_map(end_of_module).collect();
        let mut functions = BTreeMap::new();
        for (index, Symbol { address, function, module }) in symbols.iter().enumerate() {
            // Of several names for one place, the first of a function is its own.
            let known: &mut Option<String> = functions.entry(*address).or_default();
            if known.is_none() {
                *known = function.map(str::to_owned);
            }
            let next = symbols.get(index + 1);
            if let Some(module) = module
                && next.is_none_or(|next| next.module != Some(module))
            {
                let piece = (address / PIECE + 1) * PIECE;
                let end = ends.get(module.trim_matches(['[', ']'])).copied().filter(|end| end > address);
                let end = end.unwrap_or(piece);
                if next.is_none_or(|next| end < next.address) {
                    functions.insert(end, None);
                }
            }
        }
        Self(functions)
    }

    /// Whether none is known: the kernel keeps their addresses to itself.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The function that an address is in.
    pub fn name_of(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back()?.1.as_deref()
    }
}

/// The name of a module and where it ends at the latest, from a line of `/proc/modules`: `NAME SIZE REFERENCES USERS STATE ADDRESS`
/// (`m_show`, kernel/module/procfs.c). From 6.4 on its data may lie elsewhere, and the size is of both.
fn end_of_module(line: &str) -> Option<(&str, u64)> {
    let mut words = line.split_whitespace();
    let (name, size) = (words.next()?, words.next()?.parse::<u64>().ok()?);
    let address = u64::from_str_radix(words.nth(3)?.strip_prefix("0x")?, 16).ok()?;
    Some((name, address.checked_add(size)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KALLSYMS: &str = "ffffffff81000000 T _stext\nffffffff81000100 t timerlat_irq\nffffffff81000100 t alias\n\
         ffffffff81000200 T last_function\nffffffff81000280 T _etext\nffffffff81000300 D data\n\
         ffffffff81000400 d before_code\nffffffff81000400 t init_function\nffffffff81000480 T _einittext\n\
         ffffffffc0000000 t dummy_load\t[dummy]\nffffffffc0002000 t other\t[other]\nffffffffc0003000 d state\t[other]\n\
         ffffffffc0400010 t bpf_prog_1\t[bpf]\n0000000000000000 T hidden\n";
    const MODULES: &str = "dummy 4096 0 - Live 0xffffffffc0000000\nother 16384 1 dummy, Live 0xffffffffc0002000 (O)\n";

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it_and_has_not_ended() {
        let symbols = KernelSymbols::parse(KALLSYMS, MODULES);
        for (address, name) in [
            (5, None),
            (0xffff_ffff_8100_0123, Some("timerlat_irq")),
            (0xffff_ffff_8100_027f, Some("last_function")),
            (0xffff_ffff_8100_0280, None),
            (0xffff_ffff_8100_0310, None),
            (0xffff_ffff_8100_0410, Some("init_function")),
            (0xffff_ffff_8100_0490, None),
            (0xffff_ffff_c000_0fff, Some("dummy_load")),
            (0xffff_ffff_c000_1000, None),
            (0xffff_ffff_c000_2001, Some("other")),
            (0xffff_ffff_c000_3010, None),
            (0xffff_ffff_c040_0020, Some("bpf_prog_1")),
            (0xffff_ffff_ff60_0000, None),
        ] {
            assert_eq!(symbols.name_of(address), name, "{address:x}");
        }
    }

    #[test]
    fn a_module_whose_place_is_hidden_does_not_reach_beyond_the_next_symbol_of_another() {
        let symbols = KernelSymbols::parse(KALLSYMS, "dummy 4096 0 - Live 0x0000000000000000\n");
        assert_eq!(symbols.name_of(0xffff_ffff_c000_1fff), Some("dummy_load"));
        assert_eq!(symbols.name_of(0xffff_ffff_c000_2000), Some("other"));
    }
}
