//! A line that says what takes so long, where somebody watches and it takes over a second.

use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Screen;
use crate::cli::failure::Failure;

/// What the work gives, and how long it took. The line shows meanwhile.
pub fn timed<T>(
    what: &'static str,
    screen: &Screen,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<(T, Duration), Failure> {
    let _shown = Progress::start(what, screen);
    let begun = Instant::now();
    let result = work()?;
    Ok((result, begun.elapsed()))
}

/// Shows itself while it lives; its end clears the line.
pub struct Progress {
    running: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Begins to wait. Nothing is ever shown where nobody watches.
    pub fn start(what: &'static str, screen: &Screen) -> Progress {
        if !screen.is_watched() {
            return Progress { running: None };
        }
        let (stop, stopped) = mpsc::channel();
        let begun = Instant::now();
        let show = move || {
            let mut pause = Duration::from_secs(1);
            let mut shown = false;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                pause = Duration::from_millis(250);
                shown = true;
                // A line that cannot be shown is not worth an error.
                let _ = write!(io::stderr().lock(), "\r{what}: {:.0} s\x1b[K", begun.elapsed().as_secs_f64());
            }
            if shown {
                let _ = write!(io::stderr().lock(), "\r\x1b[K");
            }
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(show);
        Progress { running: thread.ok().map(|thread| (stop, thread)) }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}
