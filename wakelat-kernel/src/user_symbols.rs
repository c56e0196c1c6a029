//! Names the code at an address of a process, using its mappings and the symbols of the mapped files.

use std::path::{Path, PathBuf};

use blazesym::{
    Pid,
    normalize::{NormalizeOpts, Normalizer, UserMeta},
    symbolize::{
        Input, Reason, Symbolized, Symbolizer,
        source::{Elf, Process, Source},
    },
};

/// Symbolizes addresses of processes. Reads each file once and caches what it needs.
#[derive(Debug)]
pub struct UserSymbolizer {
    symbolizer: Symbolizer,
    normalizer: Normalizer,
}

/// The location of an address of a process, which remains valid after the process has exited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeLocation {
    /// In a file, at this offset in bytes.
    File(PathBuf, u64),
    /// Not in a file, at this address.
    Address(u64),
}

impl Default for UserSymbolizer {
    /// Creates a symbolizer with an empty cache.
    fn default() -> Self {
        Self { symbolizer: Symbolizer::new(), normalizer: Normalizer::builder().enable_build_ids(false).build() }
    }
}

impl UserSymbolizer {
    /// The functions that contain the addresses of a stack of process `pid`: the name if the file has
    /// symbols, `FILE+0xOFFSET` if it has none, and the address if it is not in a file. Stops at the first
    /// address without a mapping, which is not code but a value that code without frame pointers left in
    /// their place. None if the process has exited, or now runs other code.
    pub fn names(&self, pid: u32, addresses: &[u64]) -> Option<Vec<String>> {
        let source = Source::Process(Process::new(Pid::from(pid)));
        let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).ok()?;
        let is_code = |found: &Symbolized| !matches!(found, Symbolized::Unknown(Reason::Unmapped));
        let name = |(found, address): (Symbolized<'_>, &u64)| match found {
            Symbolized::Sym(symbol) => symbol.name.into_owned(),
            Symbolized::Unknown(_) => self
                .locations(pid, &[*address])
                .and_then(|locations| locations.first().map(CodeLocation::describe))
                .unwrap_or_else(|| format!("{address:#x}")),
        };
        let names: Vec<String> = found.into_iter().take_while(is_code).zip(addresses).map(name).collect();
        (!names.is_empty()).then_some(names)
    }

    /// The locations of these addresses, for [`Self::names_of_locations`] after the process may have
    /// exited. Stops at the first address without a mapping; none if the process has exited or now runs
    /// other code.
    pub fn locations(&self, pid: u32, addresses: &[u64]) -> Option<Vec<CodeLocation>> {
        // Use paths: the process's files in /proc disappear with it.
        let options = NormalizeOpts { map_files: false, ..NormalizeOpts::default() };
        let found = self.normalizer.normalize_user_addrs_opts(Pid::from(pid), addresses, &options).ok()?;
        let location = |(offset, meta): &(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Elf(elf)) => CodeLocation::File(elf.path.clone(), *offset),
            _ => CodeLocation::Address(*offset),
        };
        let is_code = |(_, meta): &&(u64, usize)| match found.meta.get(*meta) {
            Some(UserMeta::Unknown(unknown)) => unknown.reason != Reason::Unmapped,
            _ => true,
        };
        let locations: Vec<CodeLocation> = found.outputs.iter().take_while(is_code).map(location).collect();
        (!locations.is_empty()).then_some(locations)
    }

    /// The functions at the locations in a process that may have exited, if its files still exist; otherwise
    /// `FILE+0xOFFSET` or the address.
    pub fn names_of_locations(&self, locations: &[CodeLocation]) -> Vec<String> {
        let name = |location: &CodeLocation| match location {
            CodeLocation::File(path, offset) => {
                let found = self.symbolizer.symbolize_single(&Source::Elf(Elf::new(path)), Input::FileOffset(*offset));
                match found {
                    Ok(Symbolized::Sym(symbol)) => symbol.name.into_owned(),
                    Ok(Symbolized::Unknown(_)) | Err(_) => location.describe(),
                }
            }
            CodeLocation::Address(_) => location.describe(),
        };
        locations.iter().map(name).collect()
    }
}

impl CodeLocation {
    /// Formats `FILE+0xOFFSET`, or the address.
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
    fn a_function_of_this_process_is_named() {
        let code = UserSymbolizer::default();
        let (pid, address) = (std::process::id(), somewhere());
        let names = code.names(pid, &[address, address, 8, address]).unwrap();
        assert!(names.iter().all(|name| name.ends_with("tests::somewhere")), "{names:?}");
        assert_eq!(names.len(), 2, "names end at the first address that is not code");
        assert_eq!(code.names(pid, &[8, address]), None);
    }

    #[test]
    fn a_function_is_named_from_its_file_without_the_process() {
        let code = UserSymbolizer::default();
        let locations = code.locations(std::process::id(), &[somewhere(), 8, somewhere()]).unwrap();
        let names = code.names_of_locations(&locations);
        assert!(matches!(&names[..], [name] if name.ends_with("tests::somewhere")), "{names:?}");
        let gone = CodeLocation::File("/no/such/program".into(), 0x10);
        assert_eq!(code.names_of_locations(&[gone]), ["program+0x10"]);
    }

    #[test]
    fn a_process_that_has_exited_has_no_names() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(
            (UserSymbolizer::default().names(pid, &[8]), UserSymbolizer::default().locations(pid, &[8])),
            (None, None)
        );
    }
}
