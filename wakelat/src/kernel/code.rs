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
    /// The functions that addresses of process `pid` are in: names where the file has symbols, `FILE+0xOFFSET` where it has
    /// none, and the address where that is in no file. None where the process has ended.
    pub fn names(&self, pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
        let source = Source::Process(Process::new(Pid::from(pid)));
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).ok()?;
        // One that has ended and that nobody has waited for has no mappings, and one that runs another program has others.
        if found.iter().all(|found| matches!(found, Symbolized::Unknown(Reason::Unmapped))) {
            return None;
        }
        let name = |(found, address): (Symbolized<'_>, &u64)| match found {
            Symbolized::Sym(symbol) => symbol.name.into_owned(),
            Symbolized::Unknown(_) => self
                .places(pid, &[*address])
                .and_then(|places| places.first().map(Place::words))
                .unwrap_or_else(|| format!("{address:#x}")),
        };
        Some(found.into_iter().zip(addresses).map(name).collect())
    }

    /// Where addresses of process `pid` are, to be named when it may have ended. None where it has by now.
    pub fn places(&self, pid: u32, addresses: &[u64]) -> Option<Vec<Place>> {
        // By path: what /proc has of a process ends with it.
        let options = NormalizeOpts { map_files: false, ..NormalizeOpts::default() };
        let found = self.normalizer.normalize_user_addrs_opts(Pid::from(pid), addresses, &options).ok()?;
        let place = |(offset, meta): &(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Elf(elf)) => Place::File(elf.path.clone(), *offset),
            _ => Place::Address(*offset),
        };
        Some(found.outputs.iter().map(place).collect())
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
        let names = code.names(pid, &[address, 8]).unwrap();
        assert!(names[0].ends_with("tests::somewhere"), "{names:?}");
        assert_eq!(names[1], "0x8");
    }

    #[test]
    fn the_file_names_it_after_the_process() {
        let code = Code::default();
        let places = code.places(std::process::id(), &[somewhere(), 8]).unwrap();
        let names = code.names_of_places(&places);
        assert!(names[0].ends_with("tests::somewhere"), "{names:?}");
        assert_eq!(names[1], "0x8");
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
