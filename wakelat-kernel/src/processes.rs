//! The processes of this machine and their parents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

/// The descendants of the processes `roots` that are not among `roots`, as procfs at `proc` lists them.
///
/// # Errors
/// If `proc` cannot be read.
pub fn descendants(proc: &Path, roots: &[u32]) -> io::Result<BTreeSet<u32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir(proc)? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end meanwhile.
        let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat"));
        parents.extend(stat.ok().as_deref().and_then(parent).map(|parent| (pid, parent)));
    }
    let roots: BTreeSet<u32> = roots.iter().copied().collect();
    let is_descendant = |pid: &u32| {
        // No process is its own ancestor, but the readings are of different instants.
        let ancestors = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).skip(1);
        !roots.contains(pid) && ancestors.take(parents.len()).any(|ancestor| roots.contains(&ancestor))
    };
    Ok(parents.keys().copied().filter(is_descendant).collect())
}

/// The parent in a line of `/proc/PID/stat`. The name, in parentheses, may contain anything
/// (`do_task_stat()`, fs/proc/array.c).
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_children_and_their_children() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name, parent) in [(1, "init", 0), (7, "a) S 1 (", 1), (8, "b", 7), (9, "c", 8), (10, "d", 1)] {
            let directory = proc.path().join(pid.to_string());
            fs::create_dir(&directory).unwrap();
            fs::write(directory.join("stat"), format!("{pid} ({name}) S {parent} {pid} {pid} 0 -1\n")).unwrap();
        }
        fs::write(proc.path().join("loadavg"), "").unwrap();
        let of = |roots: &[u32]| descendants(proc.path(), roots).unwrap().into_iter().collect::<Vec<_>>();
        assert_eq!(of(&[7]), [8, 9]);
        assert_eq!(of(&[7, 8]), [9]);
        assert!(of(&[9]).is_empty());
        assert!(of(&[99]).is_empty());
    }
}
