//! File descriptors: every connection has one, and so has every file that a query writes to. Most machines give a process
//! 1024 at first and let it ask for more.

/// What the process needs beside its connections: listeners, logs, devices, files of queries.
const OTHERS: u64 = 256;

/// Takes as many as the process may have, and says how many that is; None where that cannot be told.
pub fn raise() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: writes to the given struct alone.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return None;
    }
    let all = libc::rlimit {
        rlim_cur: limit.rlim_max,
        ..limit
    };
    // SAFETY: reads the given struct alone.
    let raised = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &all) } == 0;
    Some(if raised { all.rlim_cur } else { limit.rlim_cur })
}

/// The same for a server of so many connections, which is told where these are too few.
pub fn raise_for(connections: usize) {
    let needed = connections as u64 + OTHERS;
    if let Some(limit) = raise()
        && limit < needed
    {
        tracing::warn!(
            "{connections} connections may need {needed} file descriptors, and the process may have {limit}"
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_that_may_be_had() {
        let had = super::raise();
        assert!(had.is_some() && super::raise() == had);
    }
}
