//! Names of the kernel's functions, from `/proc/kallsyms`, which is also correct for modules and BPF
//! programs.
//!
//! blazesym reads the file too, but names every address after the symbol before it (0.2.7,
//! src/kernel/ksym.rs): data, and whatever follows the end of a section, a module or the last symbol, would
//! get the name of a function. A stack walk without frame pointers finds such addresses.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
};

/// The functions by start address. An address with none begins a range without a function.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols(BTreeMap<u64, Option<String>>);

/// Symbols at the end of a section of code, which have the type of a function
/// (include/asm-generic/vmlinux.lds.h).
const ENDS: [&str; 2] = ["_etext", "_einittext"];

/// Maximum size in bytes of an area of code outside modules and the kernel image, such as that of BPF
/// programs, `[bpf]` (`BPF_PROG_PACK_SIZE`, kernel/bpf/core.c).
const PROG_PACK: u64 = 2 << 20;

/// A line of `/proc/kallsyms`: `ADDRESS TYPE NAME[\t[MODULE]]` (`s_show`, kernel/kallsyms.c).
struct Symbol<'a> {
    address: u64,
    /// The function's name; none if the symbol is not a function.
    function: Option<&'a str>,
    module: Option<&'a str>,
}

impl<'a> Symbol<'a> {
    /// Parses a line; none if the symbol has no address, as with `kernel.kptr_restrict`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok().filter(|address| *address != 0)?;
        let is_code = "tTwW".contains(words.next()?);
        let function = words.next().filter(|name| is_code && !ENDS.contains(name));
        Some(Self { address, function, module: words.next() })
    }
}

/// The files with the kernel's symbols, open. Whether they contain addresses depends on the capabilities of the process
/// that opened them, at that time (`kallsyms_show_value()` with `f_cred`, kernel/kallsyms.c and kernel/module/procfs.c,
/// since 5.8), so a process can open them, drop `CAP_SYSLOG` and read them later.
#[derive(Debug)]
pub struct KernelSymbolFiles {
    kallsyms: io::Result<File>,
    modules: io::Result<File>,
}

impl KernelSymbolFiles {
    /// Opens the files, and reads nothing yet. A file that cannot be opened counts as empty.
    pub fn open() -> Self {
        Self { kallsyms: File::open("/proc/kallsyms"), modules: File::open("/proc/modules") }
    }

    /// Reads the running kernel's symbols; empty if the kernel hides their addresses, and from the second call on.
    pub fn read(&self) -> KernelSymbols {
        let read = |file: &io::Result<File>| {
            let mut text = String::new();
            // What cannot be read has no names.
            _ = file.as_ref().map(|mut file| file.read_to_string(&mut text));
            text
        };
        KernelSymbols::parse(&read(&self.kallsyms), &read(&self.modules))
    }
}

impl KernelSymbols {
    /// Reads the running kernel's symbols; empty if the kernel hides their addresses.
    pub fn of_kernel() -> Self {
        KernelSymbolFiles::open().read()
    }

    /// Parses the symbols. A function ends at the next symbol, whether or not that is a function, or at the
    /// end of its module.
    fn parse(kallsyms: &str, modules: &str) -> Self {
        let mut symbols: Vec<Symbol> = kallsyms.lines().filter_map(Symbol::parse).collect();
        symbols.sort_by_key(|symbol| symbol.address);
        let ends: BTreeMap<&str, u64> = modules.lines().filter_map(end_of_module).collect();
        let mut functions = BTreeMap::new();
        for (index, Symbol { address, function, module }) in symbols.iter().enumerate() {
            // Of several names for one address, use the first that is a function's.
            let known: &mut Option<String> = functions.entry(*address).or_default();
            if known.is_none() {
                *known = function.map(str::to_owned);
            }
            let next = symbols.get(index + 1);
            if let Some(module) = module
                && next.is_none_or(|next| next.module != Some(module))
            {
                let pack_end = (address / PROG_PACK + 1) * PROG_PACK;
                let end = ends.get(module.trim_matches(['[', ']'])).copied().filter(|end| end > address);
                let end = end.unwrap_or(pack_end);
                if next.is_none_or(|next| end < next.address) {
                    functions.insert(end, None);
                }
            }
        }
        Self(functions)
    }

    /// Whether no symbol is known, because the kernel hides their addresses.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name of the function that contains an address.
    pub fn name_of(&self, address: u64) -> Option<&str> {
        self.0.range(..=address).next_back()?.1.as_deref()
    }
}

/// A module's name and the upper bound of its end, from a line of `/proc/modules`:
/// `NAME SIZE REFERENCES USERS STATE ADDRESS` (`m_show`, kernel/module/procfs.c). From 6.4 on, the module's
/// data may be elsewhere, and the size includes both.
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
    fn an_address_belongs_to_the_function_that_begins_before_it_and_ends_after_it() {
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
    fn a_module_with_a_hidden_address_ends_at_the_next_symbol_of_another() {
        let symbols = KernelSymbols::parse(KALLSYMS, "dummy 4096 0 - Live 0x0000000000000000\n");
        assert_eq!(symbols.name_of(0xffff_ffff_c000_1fff), Some("dummy_load"));
        assert_eq!(symbols.name_of(0xffff_ffff_c000_2000), Some("other"));
    }
}
