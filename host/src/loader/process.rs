//! What the whole process needs before the first plugin is loaded.

/// Asks OpenMP runtimes that plugins may bring to wait without burning a core (`OMP_WAIT_POLICY=passive`), unless the
/// user has said otherwise. Call it first thing in `main`: the environment may only be changed while no other thread can
/// read it. Where there are other threads already, or that cannot be seen, nothing is changed and the answer is false.
pub fn prepare_process() -> bool {
    const NAME: &str = "OMP_WAIT_POLICY";
    if std::env::var_os(NAME).is_some() {
        return true;
    }
    if n_threads() != Some(1) {
        return false;
    }
    // SAFETY: this is the only thread of the process, so nobody reads or changes the environment meanwhile.
    unsafe { std::env::set_var(NAME, "passive") };
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
