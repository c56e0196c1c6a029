//! The modules of each crate import each other without cycles, except for a module and those inside it; and no public type
//! name exists twice in the workspace.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use support::{files, read};

const CRATES: [&str; 8] = [
    "tests",
    "wakelat",
    "wakelat-common",
    "wakelat-core",
    "wakelat-ebpf",
    "wakelat-kernel",
    "wakelat-tracefs",
    "xtask",
];

/// A module by its path in the crate: `["timeline", "event"]`. The root is empty.
type Module = Vec<String>;

/// The code of a file without comments and without the test module at its end.
fn code(text: &str) -> String {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let end = ["#[cfg(test)]\nmod tests {", "#[cfg(test)]\npub(crate) mod tests {"];
    end.iter().find_map(|tests| code.split_once(tests)).map_or(code.clone(), |(before, _)| before.to_owned())
}

/// The modules of a crate, with their code.
fn modules(name: &str) -> BTreeMap<Module, String> {
    let base = format!("{name}/src");
    let module = |path: &str| {
        let path = path.strip_prefix(&format!("{base}/")).and_then(|path| path.strip_suffix(".rs")).expect("a source");
        let mut parts: Module = path.split('/').map(str::to_owned).collect();
        if ["lib", "main", "mod"].contains(&&*parts[parts.len() - 1]) {
            parts.pop();
        }
        parts
    };
    files(&base, "rs").iter().map(|path| (module(path), code(&read(path)))).collect()
}

/// The paths in a tree of imports: `a::{b, c::d}` has `a::b` and `a::c::d`.
fn flatten(prefix: &[String], tree: &str, paths: &mut Vec<Module>) {
    let segments = |path: &str| -> Module {
        let path = path.split(" as ").next().unwrap_or("");
        let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
        prefix.iter().cloned().chain(parts.map(str::to_owned)).collect()
    };
    let Some((head, rest)) = tree.split_once('{') else {
        paths.push(segments(tree));
        return;
    };
    let head = segments(head);
    let (mut depth, mut piece) = (0, String::new());
    for c in rest.chars() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                flatten(&head, &std::mem::take(&mut piece), paths);
                continue;
            }
            _ => {}
        }
        piece.push(c);
    }
    if !piece.trim().is_empty() {
        flatten(&head, &piece, paths);
    }
}

/// The paths that a file imports, or names with `crate::` or `super::`.
fn paths(code: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    let mut body = String::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let is_statement = rest[..at].chars().next_back().is_none_or(|c| c.is_whitespace());
        let (before, after) = rest.split_at(at);
        body.push_str(before);
        let Some((tree, next)) = after["use ".len()..].split_once(';').filter(|_| is_statement) else {
            body.push_str("use ");
            rest = &after["use ".len()..];
            continue;
        };
        flatten(&[], tree, &mut paths);
        rest = next;
    }
    body.push_str(rest);
    let words = body.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
    let inline = words.filter(|word| word.starts_with("crate::") || word.starts_with("super::"));
    paths.extend(inline.map(|word| word.split("::").map(str::to_owned).collect()));
    paths
}

/// The module of the crate that `path`, as `from` names it, leads into.
fn target(path: &[String], from: &Module, modules: &BTreeMap<Module, String>) -> Option<Module> {
    let first = path.first()?;
    let mut absolute = match &**first {
        "crate" => path[1..].to_vec(),
        "self" | "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let skipped = path.iter().take_while(|part| ["self", "super"].contains(&&***part)).count();
            [&from[..from.len().checked_sub(ups)?], &path[skipped..]].concat()
        }
        _ => [&from[..], path].concat(),
    };
    let is_relative = !["crate", "self", "super"].contains(&&**first);
    if is_relative && !modules.contains_key(&absolute[..=from.len()]) {
        return None;
    }
    while !absolute.is_empty() && !modules.contains_key(&absolute) {
        absolute.pop();
    }
    Some(absolute)
}

/// What each module imports, without its ancestors and the modules inside it.
fn imports(modules: &BTreeMap<Module, String>) -> BTreeMap<&Module, BTreeSet<Module>> {
    let of = |(from, code): (_, &String)| {
        let targets = paths(code).into_iter().filter_map(|path| target(&path, from, modules));
        (from, targets.filter(|to| !to.starts_with(from) && !from.starts_with(to)).collect())
    };
    modules.iter().map(of).collect()
}

/// The modules from which `from` can be reached, among those that `from` reaches.
fn cycle<'a>(from: &'a Module, imports: &'a BTreeMap<&'a Module, BTreeSet<Module>>) -> Vec<&'a Module> {
    let reach = |from: &'a Module| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(module) = open.pop() {
            open.extend(imports[module].iter().filter(|to| found.insert(*to)));
        }
        found
    };
    reach(from).into_iter().filter(|other| reach(other).contains(from)).collect()
}

#[test]
fn no_modules_import_each_other() {
    for name in CRATES {
        let modules = modules(name);
        assert!(modules.len() > 5, "{name} has {} modules", modules.len());
        let imports = imports(&modules);
        for module in modules.keys() {
            let cycle = cycle(module, &imports);
            assert!(cycle.is_empty(), "{name}: {} imports itself through {cycle:?}", module.join("::"));
        }
    }
}

#[test]
fn imports_are_found_in_trees_and_in_paths() {
    let found = paths("use crate::{a::b, c::{self, D}};\nuse super::e as f;\nfn g() { crate::h::i(); }");
    let found: Vec<String> = found.iter().map(|path| path.join("::")).collect();
    assert_eq!(found, ["crate::a::b", "crate::c::self", "crate::c::D", "super::e", "crate::h::i"]);
}

#[test]
fn no_public_type_has_the_name_of_another() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in CRATES.iter().flat_map(|name| files(&format!("{name}/src"), "rs")) {
        for line in read(&path).lines().filter(|line| line.trim_start().starts_with("pub")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let is_kind = |word: &&&str| ["struct", "enum", "trait", "type", "union"].contains(*word);
            let Some(at) = words.iter().take(3).position(|word| is_kind(&word)) else { continue };
            let name = words.get(at + 1).and_then(|word| word.split(|c: char| !c.is_alphanumeric()).next());
            found.entry(name.expect("a name").to_owned()).or_default().push(path.clone());
        }
    }
    assert!(found.len() > 300, "{}", found.len());
    let twice: Vec<_> = found.iter().filter(|(_, paths)| paths.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
