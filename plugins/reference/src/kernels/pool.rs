//! Parallel loops whose chunks do not depend on who takes them, so that results have the same bits for any number of
//! threads.

use std::ops::Range;
use std::sync::Mutex;
use thunderhead_sdk::Error;

/// Somebody who runs chunks, perhaps on several threads.
pub trait Pool {
    /// Calls `f(0)` to `f(n - 1)`, each once, in any order, perhaps at once.
    fn each(&self, n: usize, f: &(dyn Fn(usize) + Sync)) -> Result<(), Error>;
}

/// Runs everything on the calling thread.
pub struct Alone;

impl Pool for Alone {
    fn each(&self, n: usize, f: &(dyn Fn(usize) + Sync)) -> Result<(), Error> {
        (0..n).for_each(f);
        Ok(())
    }
}

impl dyn Pool + '_ {
    /// `0..n` in ranges of `grain`.
    pub fn split(&self, n: usize, grain: usize, f: &(dyn Fn(Range<usize>) + Sync)) -> Result<(), Error> {
        match n.div_ceil(grain) {
            0 => Ok(()),
            1 => {
                f(0..n);
                Ok(())
            }
            chunks => self.each(chunks, &|chunk| f(chunk * grain..((chunk + 1) * grain).min(n))),
        }
    }

    /// As `split`, for chunks that may fail; of several failures the first in order is reported.
    pub fn try_split(
        &self,
        n: usize,
        grain: usize,
        f: &(dyn Fn(Range<usize>) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
        let first: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        self.split(n, grain, &|range| {
            let start = range.start;
            let Err(error) = f(range) else { return };
            let mut first = first.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if first.as_ref().is_none_or(|(earliest, _)| start < *earliest) {
                *first = Some((start, error));
            }
        })?;
        let first = first.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        first.map_or(Ok(()), |(_, error)| Err(error))
    }
}
