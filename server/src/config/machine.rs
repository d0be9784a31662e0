//! What this process may use of the machine: all of it, or less where a control group says so.

use std::path::{Path, PathBuf};

/// Memory that a machine has of which nothing is known, bytes.
const MEMORY_BYTES_UNKNOWN: usize = 8 << 30;

/// Memory that this process may use, bytes.
pub fn memory_bytes() -> usize {
    let machine = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| total_bytes(&text))
        .unwrap_or(MEMORY_BYTES_UNKNOWN);
    Groups::of_this_process()
        .memory_bytes()
        .map_or(machine, |group| group.min(machine))
}

/// Cores that this process may use, from 1.
pub fn cores() -> usize {
    // Knows of affinity, and of the quota in most places.
    let machine = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Groups::of_this_process()
        .cores()
        .map_or(machine, |group| group.clamp(1, machine))
}

fn total_bytes(meminfo: &str) -> Option<usize> {
    let line = meminfo.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

/// The control groups that the process is in, of version 1 or 2.
struct Groups {
    root: PathBuf,
    /// The lines of `/proc/self/cgroup`: hierarchy, controllers, path.
    lines: Vec<(String, String)>,
}

impl Groups {
    fn of_this_process() -> Self {
        let text = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::new(Path::new("/sys/fs/cgroup"), &text)
    }

    fn new(root: &Path, text: &str) -> Self {
        let line = |line: &str| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?.to_owned(), fields.next()?.to_owned()))
        };
        Self {
            root: root.to_owned(),
            lines: text.lines().filter_map(line).collect(),
        }
    }

    /// The directories of a controller: the process's own group, those above it, and the root, which in a container is its
    /// group.
    fn directories(&self, controller: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (controllers, path) in &self.lines {
            let hierarchy = match controllers.as_str() {
                "" => self.root.clone(),
                listed if listed.split(',').any(|one| one == controller) => self.root.join(controller),
                _ => continue,
            };
            let mut group = Path::new(path.trim_start_matches('/'));
            loop {
                found.push(hierarchy.join(group));
                match group.parent() {
                    Some(parent) => group = parent,
                    None => break,
                }
            }
        }
        found
    }

    /// The least of what each directory's file says.
    fn least(&self, controller: &str, read: impl Fn(&Path) -> Option<usize>) -> Option<usize> {
        self.directories(controller).iter().filter_map(|path| read(path)).min()
    }

    fn memory_bytes(&self) -> Option<usize> {
        self.least("memory", |group| {
            // "max", or a number near the largest, where there is no limit.
            let files = ["memory.max", "memory.limit_in_bytes"].iter();
            files.filter_map(|file| number(&group.join(file))).min()
        })
    }

    fn cores(&self) -> Option<usize> {
        let whole = |quota: usize, period: usize| (period > 0).then(|| quota.div_ceil(period).max(1));
        self.least("cpu", |group| {
            if let Ok(text) = std::fs::read_to_string(group.join("cpu.max")) {
                let mut fields = text.split_whitespace();
                let quota = fields.next()?.parse().ok()?;
                return whole(quota, fields.next()?.parse().ok()?);
            }
            // -1 where there is no limit.
            whole(
                number(&group.join("cpu.cfs_quota_us"))?,
                number(&group.join("cpu.cfs_period_us"))?,
            )
        })
    }
}

fn number(path: &Path) -> Option<usize> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(files: &[(&str, &str)], cgroup: &str) -> (Option<usize>, Option<usize>) {
        let root = std::env::temp_dir().join(format!("tenon-{}", uuid::Uuid::new_v4()));
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let groups = Groups::new(&root, cgroup);
        let found = (groups.memory_bytes(), groups.cores());
        std::fs::remove_dir_all(root).expect("the files");
        found
    }

    #[test]
    fn the_narrowest_group_counts() {
        // Version 2: in a container the group is the root; elsewhere one below it.
        let files = [
            ("memory.max", "max\n"),
            ("a/memory.max", "1000\n"),
            ("a/b/memory.max", "2000\n"),
        ];
        assert_eq!(groups(&files, "0::/a/b\n").0, Some(1000));
        assert_eq!(groups(&files, "0::/\n").0, None);
        assert_eq!(groups(&[("memory.max", "500")], "0::/\n").0, Some(500));
        assert_eq!(groups(&[("cpu.max", "150000 100000\n")], "0::/\n").1, Some(2));
        assert_eq!(groups(&[("cpu.max", "max 100000\n")], "0::/\n").1, None);
        // Version 1: a hierarchy for each controller.
        let files = [
            ("memory/docker/memory.limit_in_bytes", "4096"),
            ("cpu/docker/cpu.cfs_quota_us", "300000"),
            ("cpu/docker/cpu.cfs_period_us", "100000"),
        ];
        let text = "5:memory:/docker\n4:cpu,cpuacct:/docker\n";
        assert_eq!(groups(&files, text), (Some(4096), Some(3)));
        assert_eq!(groups(&[("cpu/cpu.cfs_quota_us", "-1")], "4:cpu,cpuacct:/\n").1, None);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(memory_bytes() > 64 << 20 && cores() > 0);
        assert_eq!(total_bytes("MemFree: 1 kB\nMemTotal:   2 kB\n"), Some(2048));
    }
}
