//! What is at an address in a process: by its mappings, and the symbols of the files behind them.

use std::path::Path;

use blazesym::{
    Pid,
    normalize::{Normalizer, UserMeta},
    symbolize::{
        Input, Symbolized, Symbolizer,
        source::{Process, Source},
    },
};

/// Reads files once, and keeps what it needs of them.
#[derive(Debug, Default)]
pub struct Code {
    symbolizer: Symbolizer,
    normalizer: Normalizer,
}

impl Code {
    /// The functions that addresses of process `pid` are in: names where the file has symbols, `FILE+0xOFFSET` where it has
    /// none, and the address where that is in no file. None where the process has ended, or its mappings cannot be read.
    pub fn names(&self, pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
        let pid = Pid::from(pid);
        let found = self.symbolizer.symbolize(&Source::Process(Process::new(pid)), Input::AbsAddr(addresses)).ok()?;
        let name = |(found, address): (Symbolized<'_>, &u64)| match found {
            Symbolized::Sym(symbol) => symbol.name.into_owned(),
            Symbolized::Unknown(_) => self.place(pid, *address).unwrap_or_else(|| format!("{address:#x}")),
        };
        Some(found.into_iter().zip(addresses).map(name).collect())
    }

    /// The file that an address is in, and where in it.
    fn place(&self, pid: Pid, address: u64) -> Option<String> {
        let found = self.normalizer.normalize_user_addrs(pid, &[address]).ok()?;
        let (offset, meta) = found.outputs.first()?;
        let UserMeta::Elf(elf) = found.meta.get(*meta)? else { return None };
        Some(format!("{}+{offset:#x}", Path::new(&elf.path).file_name()?.display()))
    }
}
