//! What the whole process needs before the first plugin is loaded.

/// Asks OpenMP runtimes that plugins may bring to wait without burning a core (`OMP_WAIT_POLICY=passive`), but for some
/// 20 us first (`GOMP_SPINCOUNT`), in which the next of a row of calls comes: measured, libtorch's pointwise calls of 100 to
/// 500 us took 1.9 times as long on two threads where each call woke its threads anew. Nothing is changed where the user has
/// said otherwise. Call it first thing in `main`: the environment may only be changed while no other thread can
/// read it. Where there are other threads already, or that cannot be seen, nothing is changed and the answer is false.
pub fn prepare_process() -> bool {
    const WAITING: [(&str, &str); 2] = [("OMP_WAIT_POLICY", "passive"), ("GOMP_SPINCOUNT", "1000")];
    if WAITING.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return true;
    }
    if n_threads() != Some(1) {
        return false;
    }
    for (name, value) in WAITING {
        // SAFETY: this is the only thread of the process, so nobody reads or changes the environment meanwhile.
        unsafe { std::env::set_var(name, value) };
    }
    true
}

/// Threads of this process, where the system tells.
fn n_threads() -> Option<usize> {
    std::fs::read_dir("/proc/self/task").ok().map(Iterator::count)
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_is_changed_while_other_threads_run() {
        // The test harness has threads of its own, unless it was told to use none.
        let before = std::env::var_os("OMP_WAIT_POLICY");
        let other = std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(50)));
        super::prepare_process();
        assert_eq!(std::env::var_os("OMP_WAIT_POLICY"), before);
        other.join().expect("it only sleeps");
    }
}
