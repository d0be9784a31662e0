//! What ARCHITECTURE.md says of the tree, held: imports point one way, and files are short or say why they are not.
//!
//! The lists of exceptions name what is not so yet. They only shrink: an exception that has gone must leave its list.

use crate::process::root;
use anyhow::{Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The planner's folders from the lowest layer to the highest: each imports from itself and from lower ones.
const LAYERS: [&str; 4] = ["pg", "catalog", "optimizer", "session"];

/// Files of the planner that import from a folder above theirs.
const UPWARD: [(&str, &str); 0] = [];

/// Folders whose modules may not import each other in a circle.
const FOLDERS: [(&str, &str); 6] = [
    ("cpu", ""),
    ("cpu", "join"),
    ("executor", ""),
    ("executor", "join"),
    ("executor", "join/materialized"),
    ("gpu", ""),
];

/// Those that do all the same, by crate and folder.
const CIRCLES: [(&str, &str, &str); 0] = [];

/// Lines of a file at most that does not say near its top why it has more.
const LINES_MAX: usize = 400;
/// What it says.
const REASON: &str = "lines because";

pub(crate) async fn layers() -> Result<()> {
    let layer_of = |module: &str| LAYERS.iter().position(|layer| *layer == module);
    let mut found = BTreeSet::new();
    for (file, targets) in imports("planner", "")? {
        let module = top(&file);
        if module == "lib" {
            continue;
        }
        let layer = layer_of(&module);
        ensure!(
            layer.is_some(),
            "planner/src/{file} is in none of the folders of LAYERS"
        );
        let upward = targets.into_iter().filter(|target| layer_of(target) > layer);
        found.extend(upward.map(|target| (file.clone(), target)));
    }
    let known = UPWARD
        .iter()
        .map(|(file, target)| (file.to_string(), target.to_string()));
    same(found, known.collect(), "imports from a higher layer")
}

pub(crate) async fn circles() -> Result<()> {
    for (member, folder) in FOLDERS {
        let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (file, targets) in imports(member, folder)? {
            edges.entry(top(&file)).or_default().extend(targets);
        }
        // The root names all of them.
        edges.remove(if folder.is_empty() { "lib" } else { "mod" });
        let reached = |from: &str| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from.to_string()]);
            while let Some(at) = open.pop() {
                let next = edges.get(&at).into_iter().flatten();
                open.extend(next.filter(|next| seen.insert(next.to_string())).cloned());
            }
            seen
        };
        let all: BTreeMap<&String, BTreeSet<String>> = edges.keys().map(|from| (from, reached(from))).collect();
        let circle = |from: &String| -> BTreeSet<String> {
            let around = all
                .iter()
                .filter(|(to, back)| all[from].contains(**to) && back.contains(from));
            around.map(|(to, _)| to.to_string()).collect()
        };
        let found = edges.keys().map(circle).filter(|circle| circle.len() > 1).collect();
        let known = CIRCLES.iter().filter(|known| (known.0, known.1) == (member, folder));
        let known = known.map(|known| known.2.split(' ').map(str::to_string).collect());
        same(found, known.collect(), &format!("circles of {member} {folder}"))?;
    }
    Ok(())
}

pub(crate) async fn lengths() -> Result<()> {
    let known = std::fs::read_to_string(root().join("tests/long-files.txt"))?;
    let known = known.lines().filter(|line| !line.starts_with('#')).map(str::to_string);
    let mut found = BTreeSet::new();
    for member in [
        "cpu",
        "executor",
        "gpu",
        "laboratory",
        "planner",
        "server",
        "storage",
        "tests",
    ] {
        for path in sources(&root().join(member))? {
            let text = std::fs::read_to_string(&path)?;
            let says_why = text
                .lines()
                .take(12)
                .any(|line| line.starts_with("//!") && line.contains(REASON));
            if text.lines().count() > LINES_MAX && !says_why {
                found.insert(path.strip_prefix(root())?.display().to_string());
            }
        }
    }
    same(
        found,
        known.collect(),
        &format!("files above {LINES_MAX} lines that do not say why"),
    )
}

fn same<T: Ord + std::fmt::Debug>(found: BTreeSet<T>, known: BTreeSet<T>, what: &str) -> Result<()> {
    let new: Vec<&T> = found.difference(&known).collect();
    let gone: Vec<&T> = known.difference(&found).collect();
    ensure!(new.is_empty(), "new {what}: {new:#?}");
    ensure!(gone.is_empty(), "gone, and still in the list of {what}: {gone:#?}");
    Ok(())
}

/// The module at the top of the crate, or of a folder, that a file belongs to.
fn top(file: &str) -> String {
    let first = file.split('/').next().unwrap_or_default();
    first.trim_end_matches(".rs").to_string()
}

/// For each file of a crate's folder, the other modules at the top of the folder that it names.
fn imports(member: &str, folder: &str) -> Result<Vec<(String, BTreeSet<String>)>> {
    let src = root().join(member).join("src").join(folder);
    let (root_file, prefix) = match folder {
        "" => ("lib.rs", "crate::".to_string()),
        _ => ("mod.rs", format!("crate::{}::", folder.replace('/', "::"))),
    };
    let lib = std::fs::read_to_string(src.join(root_file))?;
    let mut found = Vec::new();
    for path in sources(&src)? {
        let file = path.strip_prefix(&src)?.display().to_string();
        if file.starts_with("bin/") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let code = code.join("\n");
        let above: &str = match file.trim_end_matches("/mod.rs").contains('/') {
            true => &prefix,
            false => "super::",
        };
        let named = code.split(&prefix).skip(1).chain(code.split(above).skip(1));
        let named = named.flat_map(heads);
        let modules = named.filter_map(|name| module_of(&lib, &src, &name));
        let targets = modules.filter(|module| *module != top(&file)).collect();
        found.push((file, targets));
    }
    Ok(found)
}

/// The names right after `crate::`: one, or those of a list in braces.
fn heads(rest: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        let text = text.trim_start().chars();
        text.take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = rest.strip_prefix('{') else {
        return vec![name(rest)];
    };
    let (mut depth, mut start, mut heads) = (1, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            heads.push(name(&list[start..at]));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

/// The module that has a name of the crate's root: itself, or the one that it is exported from.
fn module_of(lib: &str, src: &Path, name: &str) -> Option<String> {
    if src.join(name).is_dir() || src.join(format!("{name}.rs")).is_file() {
        return Some(name.to_string()).filter(|name| !name.is_empty());
    }
    let exports = lib
        .split("pub use ")
        .skip(1)
        .filter_map(|export| export.split_once(';'));
    let mut exports = exports.filter_map(|(export, _)| export.split_once("::"));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let exporting = exports.find(|(_, names)| names.split(|c| !is_word(c)).any(|word| word == name));
    exporting.map(|(module, _)| module.to_string())
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
