//! The processes of this machine and their parents.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use super::task_stat::TaskStat;

/// The descendants of the processes `roots` that are not among `roots`, as procfs at `proc` lists them.
///
/// # Errors
/// If `proc` cannot be read.
pub fn descendants(proc: &Path, roots: &[u32]) -> io::Result<BTreeSet<u32>> {
    let mut parents = BTreeMap::new();
    for entry in fs::read_dir(proc)? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        // A process may end meanwhile.
        let parent = TaskStat::read(proc, pid).and_then(|stat| stat.parent());
        parents.extend(parent.map(|parent| (pid, parent)));
    }
    let roots: BTreeSet<u32> = roots.iter().copied().collect();
    let is_descendant = |pid: &u32| {
        // No process is its own ancestor, but the readings are of different instants.
        let ancestors = std::iter::successors(Some(*pid), |pid| parents.get(pid).copied()).skip(1);
        !roots.contains(pid) && ancestors.take(parents.len()).any(|ancestor| roots.contains(&ancestor))
    };
    Ok(parents.keys().copied().filter(is_descendant).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_children_and_their_children() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, name, parent) in [(1, "init", 0), (7, "a) S 1 (", 1), (8, "b", 7), (9, "c", 8), (10, "d", 1)] {
            let directory = proc.path().join(format!("{pid}/task/{pid}"));
            fs::create_dir_all(&directory).unwrap();
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
