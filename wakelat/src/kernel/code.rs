//! What is at an address in a process: by its mappings, and the symbols of the files behind them.

use std::path::{Path, PathBuf};

use blazesym::{
    Pid,
    normalize::{NormalizeOpts, Normalizer, UserMeta},
    symbolize::{
        Input, Reason, Symbolized, Symbolizer,
        source::{Elf, Process, Source},
    },
};

/// Reads files once, and keeps what it needs of them.
#[derive(Debug)]
pub struct UserSymbolizer {
    symbolizer: Symbolizer,
    normalizer: Normalizer,
}

/// Where an address of a process is, whatever becomes of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeLocation {
    /// In a file, so many bytes from its beginning.
    File(PathBuf, u64),
    /// In none.
    Address(u64),
}

impl Default for UserSymbolizer {
    /// Nothing read yet.
    fn default() -> Self {
        Self { symbolizer: Symbolizer::new(), normalizer: Normalizer::builder().enable_build_ids(false).build() }
    }
}

impl UserSymbolizer {
    /// The functions that the addresses of a stack of process `pid` are in, up to the first that is in no mapping: it is no
    /// code, but what stood where others have frame pointers. Names where the file has symbols, `FILE+0xOFFSET` where it has none,
    /// and the address where that is in no file. None where the process has ended, or has other code by now.
    pub fn names(&self, pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
        let source = Source::Process(Process::new(Pid::from(pid)));
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).ok()?;
        let is_code = |found: &Symbolized| !matches!(found, Symbolized::Unknown(Reason::Unmapped));
        let name = |(found, address): (Symbolized<'_>, &u64)| match found {
            Symbolized::Sym(symbol) => symbol.name.into_owned(),
            Symbolized::Unknown(_) => self
                .locations(pid, &[*address])
                .and_then(|places| places.first().map(CodeLocation::describe))
                .unwrap_or_else(|| format!("{address:#x}")),
        };
        let names: Vec<String> = found.into_iter().take_while(is_code).zip(addresses).map(name).collect();
        (!names.is_empty()).then_some(names)
    }

    /// Where these addresses are, for [`Self::names_of_locations`] when the process may have ended. None as of [`Self::names`].
    pub fn locations(&self, pid: u32, addresses: &[u64]) -> Option<Vec<CodeLocation>> {
        // By path: what /proc has of a process ends with it.
        let options = NormalizeOpts { map_files: false, ..NormalizeOpts::default() };
        let found = self.normalizer.normalize_user_addrs_opts(Pid::from(pid), addresses, &options).ok()?;
        let place = |(offset, meta): &(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Elf(elf)) => CodeLocation::File(elf.path.clone(), *offset),
            _ => CodeLocation::Address(*offset),
        };
        let is_code = |(_, meta): &&(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Unknown(unknown)) => unknown.reason != Reason::Unmapped,
            _ => true,
        };
        let places: Vec<CodeLocation> = found.outputs.iter().take_while(is_code).map(place).collect();
        (!places.is_empty()).then_some(places)
    }

    /// The functions of a process that has ended, as far as its files are still there.
    pub fn names_of_locations(&self, places: &[CodeLocation]) -> Vec<String> {
        let name = |place: &CodeLocation| match place {
            CodeLocation::File(path, offset) => {
                let found = self.symbolizer.symbolize_single(&Source::Elf(Elf::new(path)), Input::FileOffset(*offset));
                match found {
                    Ok(Symbolized::Sym(symbol)) => symbol.name.into_owned(),
                    Ok(Symbolized::Unknown(_)) | Err(_) => place.describe(),
                }
            }
            CodeLocation::Address(_) => place.describe(),
        };
        places.iter().map(name).collect()
    }
}

impl CodeLocation {
    /// `FILE+0xOFFSET`, or the address.
    fn describe(&self) -> String {
        match self {
            Self::File(path, offset) => {
                format!("{}+{offset:#x}", path.file_name().map_or(Path::new("?"), Path::new).display())
            }
            Self::Address(address) => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn somewhere() -> u64 {
        somewhere as *const () as u64
    }

    #[test]
    fn a_function_of_this_process_has_its_name() {
        let code = UserSymbolizer::default();
        let (pid, address) = (std::process::id(), somewhere());
        let names = code.names(pid, &[address, address, 8, address]).unwrap();
        assert!(names.iter().all(|name| name.ends_with("tests::somewhere")), "{names:?}");
        assert_eq!(names.len(), 2, "what is behind something that is no code is none");
        assert_eq!(code.names(pid, &[8, address]), None);
    }

    #[test]
    fn the_file_names_it_after_the_process() {
        let code = UserSymbolizer::default();
        let places = code.locations(std::process::id(), &[somewhere(), 8, somewhere()]).unwrap();
        let names = code.names_of_locations(&places);
        assert!(matches!(&names[..], [name] if name.ends_with("tests::somewhere")), "{names:?}");
        let gone = CodeLocation::File("/no/such/program".into(), 0x10);
        assert_eq!(code.names_of_locations(&[gone]), ["program+0x10"]);
    }

    #[test]
    fn a_process_that_has_ended_has_no_names() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(
            (UserSymbolizer::default().names(pid, &[8]), UserSymbolizer::default().locations(pid, &[8])),
            (None, None)
        );
    }
}
