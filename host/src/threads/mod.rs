//! The host's one pool of threads.
//!
//! Chunks of a job are claimed by a counter. The caller works first, and waits at the end only for workers that have
//! begun: a worker that the system has not scheduled delays nobody (a barrier that waits for all costs a scheduler
//! slice, 8 ms, on a busy machine). One job at a time: a second caller, and a nested call, do their chunks themselves.
//!
//! Invariant: a worker touches a job only between joining it (under the lock, while it is posted) and leaving it; the
//! caller unposts the job and waits until nobody is inside before it returns. So the job may live on its stack.

#![allow(unsafe_code)]

use crate::plan::Parallel;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How often a worker looks for a job before it sleeps: some 20 µs.
const SPINS: u32 = 4000;

thread_local! {
    /// Is this thread inside a job?
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A pool. Dropping it ends its threads.
pub struct Pool {
    shared: Arc<Shared>,
    workers: Mutex<Vec<std::thread::JoinHandle<()>>>,
    n_workers: usize,
}

struct Shared {
    posted: Mutex<Posted>,
    wake: Condvar,
    /// Goes up with each job and at the end, so that spinning workers see it without the lock.
    news: AtomicU64,
}

struct Posted {
    job: Option<JobPtr>,
    sleeping: usize,
    ending: bool,
}

struct Job<'a> {
    body: &'a (dyn Fn(usize) + Sync),
    n_chunks: usize,
    next: AtomicUsize,
    /// Workers that may still join.
    seats: AtomicUsize,
    inside: AtomicUsize,
    panicked: AtomicBool,
}

#[derive(Clone, Copy)]
struct JobPtr(NonNull<Job<'static>>);

// SAFETY: the pointee is `Sync`; its lifetime is the room's invariant.
unsafe impl Send for JobPtr {}

impl Pool {
    /// A pool for up to `threads` threads, callers included. Threads start at the first job.
    pub fn new(threads: usize) -> Pool {
        let posted = Posted { job: None, sleeping: 0, ending: false };
        let shared =
            Arc::new(Shared { posted: Mutex::new(posted), wake: Condvar::new(), news: AtomicU64::new(0) });
        Pool { shared, workers: Mutex::new(Vec::new()), n_workers: threads.saturating_sub(1) }
    }

    /// Threads that a job may have, the caller included.
    pub fn threads(&self) -> usize {
        self.n_workers + 1
    }

    fn start(&self) {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        while workers.len() < self.n_workers {
            let shared = self.shared.clone();
            let named = std::thread::Builder::new().name("thunderhead".into());
            match named.spawn(move || shared.work()) {
                Ok(handle) => workers.push(handle),
                // Fewer threads are slower, not wrong.
                Err(_) => break,
            }
        }
    }
}

impl Parallel for Pool {
    fn parallel_for(&self, threads: usize, n_chunks: usize, f: &(dyn Fn(usize) + Sync)) {
        let helpers = threads.min(self.threads()).min(n_chunks).saturating_sub(1);
        if helpers == 0 || INSIDE.get() {
            return (0..n_chunks).for_each(f);
        }
        self.start();
        let job = Job {
            body: f,
            n_chunks,
            next: AtomicUsize::new(0),
            seats: AtomicUsize::new(helpers),
            inside: AtomicUsize::new(0),
            panicked: AtomicBool::new(false),
        };
        if !self.shared.post(&job, helpers) {
            return (0..n_chunks).for_each(f);
        }
        let mine = catch_unwind(AssertUnwindSafe(|| job.take_chunks()));
        self.shared.unpost(&job);
        if let Err(panic) = mine {
            resume_unwind(panic);
        }
        assert!(!job.panicked.load(Ordering::Acquire), "a chunk of a parallel job panicked on a worker");
    }
}

impl Job<'_> {
    fn take_chunks(&self) {
        let was_inside = INSIDE.replace(true);
        loop {
            let chunk = self.next.fetch_add(1, Ordering::Relaxed);
            if chunk >= self.n_chunks {
                break;
            }
            (self.body)(chunk);
        }
        INSIDE.set(was_inside);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Posted> {
        self.posted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Posts the job unless another is.
    fn post(&self, job: &Job<'_>, helpers: usize) -> bool {
        let mut posted = self.lock();
        if posted.job.is_some() {
            return false;
        }
        // The lifetime is erased; `unpost` returns only when nobody looks at the job any more.
        posted.job = Some(JobPtr(NonNull::from(job).cast()));
        self.news.fetch_add(1, Ordering::Release);
        let sleeping = posted.sleeping;
        drop(posted);
        for _ in 0..sleeping.min(helpers) {
            self.wake.notify_one();
        }
        true
    }

    fn unpost(&self, job: &Job<'_>) {
        self.lock().job = None;
        let mut spins = 0u32;
        while job.inside.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < SPINS { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
    }

    fn work(&self) {
        let mut seen = 0;
        loop {
            let mut spins = 0;
            while self.news.load(Ordering::Acquire) == seen && spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
            }
            let mut posted = self.lock();
            while self.news.load(Ordering::Acquire) == seen && !posted.ending {
                posted.sleeping += 1;
                posted = self.wake.wait(posted).unwrap_or_else(PoisonError::into_inner);
                posted.sleeping -= 1;
            }
            if posted.ending {
                return;
            }
            seen = self.news.load(Ordering::Acquire);
            let Some(JobPtr(at)) = posted.job else { continue };
            // SAFETY: the job is posted and the lock is held, so its caller is still in `parallel_for`.
            let job = unsafe { at.as_ref() };
            let seat =
                job.seats.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok();
            if !seat {
                continue;
            }
            job.inside.fetch_add(1, Ordering::AcqRel);
            drop(posted);
            if catch_unwind(AssertUnwindSafe(|| job.take_chunks())).is_err() {
                INSIDE.set(false);
                job.panicked.store(true, Ordering::Release);
            }
            // The last touch: the caller may return now.
            job.inside.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.lock().ending = true;
        self.shared.news.fetch_add(1, Ordering::Release);
        self.shared.wake.notify_all();
        for w in self.workers.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A worker that panicked outside a job has nothing to report that matters now.
            let _ = w.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_runs_once() {
        let pool = Pool::new(4);
        for n in [0, 1, 2, 7, 1000] {
            let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
            pool.parallel_for(4, n, &|i| {
                hits[i].fetch_add(1, Ordering::Relaxed);
            });
            assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn nested_and_concurrent_jobs_finish() {
        let pool = Pool::new(3);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        let sum = AtomicUsize::new(0);
                        pool.parallel_for(3, 5, &|_| {
                            pool.parallel_for(3, 3, &|i| {
                                sum.fetch_add(i, Ordering::Relaxed);
                            });
                        });
                        assert_eq!(sum.load(Ordering::Relaxed), 15);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives() {
        let pool = Pool::new(2);
        for _ in 0..20 {
            let r = catch_unwind(AssertUnwindSafe(|| {
                pool.parallel_for(2, 8, &|i| assert!(i != 5, "chunk five"))
            }));
            assert!(r.is_err());
        }
        pool.parallel_for(2, 8, &|_| {});
    }
}
