//! Files that are not as they were written: told by name, never read as data.

use super::{create, dump, insert, open};
use rand::{Rng, SeedableRng, rngs::StdRng};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

fn files(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|path| !path.ends_with("lock")).collect();
    files.sort();
    files
}

fn filled(directory: &Path, checkpoint: bool) {
    let database = open(directory).unwrap();
    for round in 0..4 {
        let mut transaction = database.begin();
        let name = format!("t{round}");
        create(&mut transaction, &name).unwrap();
        insert(&mut transaction, &name, &(0..2000).collect::<Vec<_>>()).unwrap();
        transaction.commit().unwrap();
        if round == 1 {
            database.checkpoint().unwrap();
        }
    }
    if checkpoint {
        database.checkpoint().unwrap();
    }
}

#[test]
fn flipped_bits_are_found() {
    let seed = rand::rng().random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for checkpoint in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        filled(directory.path(), checkpoint);
        let whole = dump(&open(directory.path()).unwrap().snapshot());
        let mut without_last = whole.clone();
        without_last.remove("public.t3");
        for _ in 0..150 {
            let files = files(directory.path());
            let path = &files[random.random_range(0..files.len())];
            let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            let at = random.random_range(0..file.metadata().unwrap().len());
            let mut before = [0];
            file.read_exact_at(&mut before, at).unwrap();
            let copy = std::fs::read(path).unwrap();
            file.write_all_at(&[before[0] ^ (1 << random.random_range(0..8))], at)
                .unwrap();
            match open(directory.path()) {
                Ok(database) => {
                    let found = dump(&database.snapshot());
                    // A bit of the last commit is not told from one that was never finished.
                    let last = !checkpoint && found == without_last;
                    assert!(found == whole || last, "byte {at} of {}", path.display());
                }
                Err(error) => {
                    assert!(["XX001", "0A000"].contains(&error.sqlstate()), "{error}");
                    let name = path.file_name().unwrap().to_string_lossy().into_owned();
                    assert!(error.to_string().contains(&name), "{error}: byte {at} of {name}");
                }
            }
            std::fs::write(path, copy).unwrap();
        }
    }
}

#[test]
fn files_that_are_missing_or_newer_are_named() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path(), false);
    for path in files(directory.path()) {
        let copy = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("checkpoint") {
            std::fs::remove_file(&path).unwrap();
            let error = open(directory.path()).unwrap_err();
            assert!(
                error.sqlstate() == "XX001" && error.to_string().contains(&name),
                "{error}"
            );
        }
        let mut newer = copy.clone();
        newer[8] += 1;
        std::fs::write(&path, newer).unwrap();
        let error = open(directory.path()).unwrap_err();
        assert_eq!(error.sqlstate(), "0A000", "{error}");
        assert!(
            error.to_string().contains(&name) && error.to_string().contains("newer"),
            "{error}"
        );
        std::fs::write(&path, copy).unwrap();
    }
    open(directory.path()).unwrap();
}
