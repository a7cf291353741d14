//! Loops that were lowered before. Lowering looks at how long most coordinates are, but not at all: how many rows there
//! are, or how long the coordinate that is cut into tiles, changes numbers in a loop and nothing of its steps. So a model
//! that runs with another batch, and layers that repeat, take the loop that is there, with their own numbers.
//!
//! Kept for the process, at most [`MOST`]; then all go and it begins anew.

use crate::emit::{Access, Id, Ins};
use crate::lower::{Form, Loop, Reach, Tile};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MOST: usize = 1024;

/// All that steps depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub ins: Vec<Ins>,
    pub stores: Vec<(Id, Access)>,
    /// 0 where the length is left open.
    pub lens: Vec<usize>,
    pub form: Form,
    pub outer: Vec<usize>,
    pub serial: Vec<usize>,
    pub lane: Vec<usize>,
    pub reaches: Vec<Reach>,
    /// Without how many there are.
    pub tile: Tile,
}

static KEPT: Mutex<Option<HashMap<Key, Loop>>> = Mutex::new(None);

/// The loop that was lowered for such a key.
pub fn find(key: &Key) -> Option<Loop> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).as_ref()?.get(key).cloned()
}

/// For the next one.
pub fn keep(key: Key, looped: &Loop) {
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_with(HashMap::new);
    if kept.len() >= MOST {
        kept.clear();
    }
    kept.insert(key, looped.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Dtype, Graph, Prim, Reduce, TensorType, Unary};
    use crate::work::Work;
    use crate::{emit, fuse, lower};

    /// `exp(x)`, and its sums over rows where they are wanted.
    fn keys(rows: usize, columns: usize, sums: bool) -> Vec<Key> {
        let mut graph = Graph::new();
        let x = graph.dense_input(TensorType::new(Dtype::F32, &[rows, columns])).expect("small");
        let e = graph.push1(Prim::Unary(Unary::Exp), &[x.into()]).expect("fits");
        graph.output(e);
        if sums {
            let sum = Prim::Reduce { op: Reduce::Sum, axes: vec![1], out: None };
            let sum = graph.push1(sum, &[e.into()]).expect("fits");
            graph.output(sum);
        }
        let mut work = Work::of(&graph).expect("taken");
        let outputs = graph.outputs.clone();
        let groups = fuse::fuse(&mut work, &outputs);
        let mut inputs = Vec::new();
        let codes = (0..groups.groups.len()).flat_map(|at| emit::emit(&groups, at, &mut inputs, &outputs));
        codes.map(|code| lower::key(&code)).collect()
    }

    #[test]
    fn rows_may_be_more_but_not_longer() {
        assert_eq!(keys(40, 300, true), keys(7, 300, true));
        assert_ne!(keys(40, 300, true), keys(40, 301, true));
        // One run of elements, cut into tiles of the same size.
        assert_eq!(keys(4000, 4, false), keys(50, 200, false));
        // So few that they are one tile, which is smaller.
        assert_ne!(keys(4000, 4, false), keys(4, 4, false));
    }
}
