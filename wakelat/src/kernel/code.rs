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
pub struct Code {
    symbolizer: Symbolizer,
    normalizer: Normalizer,
}

/// Where an address of a process is, whatever becomes of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a file, so many bytes from its beginning.
    File(PathBuf, u64),
    /// In none.
    Address(u64),
}

impl Default for Code {
    /// Nothing read yet.
    fn default() -> Self {
        Self { symbolizer: Symbolizer::new(), normalizer: Normalizer::builder().enable_build_ids(false).build() }
    }
}

impl Code {
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
                .places(pid, &[*address])
                .and_then(|places| places.first().map(Place::words))
                .unwrap_or_else(|| format!("{address:#x}")),
        };
        let names: Vec<String> = found.into_iter().take_while(is_code).zip(addresses).map(name).collect();
        (!names.is_empty()).then_some(names)
    }

    /// Where these addresses are, for [`Self::names_of_places`] when the process may have ended. None as of [`Self::names`].
    pub fn places(&self, pid: u32, addresses: &[u64]) -> Option<Vec<Place>> {
        // By path: what /proc has of a process ends with it.
        let options = NormalizeOpts { map_files: false, ..NormalizeOpts::default() };
        let found = self.normalizer.normalize_user_addrs_opts(Pid::from(pid), addresses, &options).ok()?;
        let place = |(offset, meta): &(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Elf(elf)) => Place::File(elf.path.clone(), *offset),
            _ => Place::Address(*offset),
        };
        let is_code = |(_, meta): &&(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Unknown(unknown)) => unknown.reason != Reason::Unmapped,
            _ => true,
        };
        let places: Vec<Place> = found.outputs.iter().take_while(is_code).map(place).collect();
        (!places.is_empty()).then_some(places)
    }

    /// The functions of a process that has ended, as far as its files are still there.
    pub fn names_of_places(&self, places: &[Place]) -> Vec<String> {
        let name = |place: &Place| match place {
            Place::File(path, offset) => {
                let found = self.symbolizer.symbolize_single(&Source::Elf(Elf::new(path)), Input::FileOffset(*offset));
                match found {
                    Ok(Symbolized::Sym(symbol)) => symbol.name.into_owned(),
                    Ok(Symbolized::Unknown(_)) | Err(_) => place.words(),
                }
            }
            Place::Address(_) => place.words(),
        };
        places.iter().map(name).collect()
    }
}

impl Place {
    /// `FILE+0xOFFSET`, or the address.
    fn words(&self) -> String {
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
        let code = Code::default();
        let (pid, address) = (std::process::id(), somewhere());
        let names = code.names(pid, &[address, address, 8, address]).unwrap();
        assert!(names.iter().all(|name| name.ends_with("tests::somewhere")), "{names:?}");
        assert_eq!(names.len(), 2, "what is behind something that is no code is none");
        assert_eq!(code.names(pid, &[8, address]), None);
    }

    #[test]
    fn the_file_names_it_after_the_process() {
        let code = Code::default();
        let places = code.places(std::process::id(), &[somewhere(), 8, somewhere()]).unwrap();
        let names = code.names_of_places(&places);
        assert!(matches!(&names[..], [name] if name.ends_with("tests::somewhere")), "{names:?}");
        let gone = Place::File("/no/such/program".into(), 0x10);
        assert_eq!(code.names_of_places(&[gone]), ["program+0x10"]);
    }

    #[test]
    fn a_process_that_has_ended_has_no_names() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!((Code::default().names(pid, &[8]), Code::default().places(pid, &[8])), (None, None));
    }
}
