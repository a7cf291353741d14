//! Where each part of a module stands in the text that it was read from.

use super::super::fault::{Fault, Faults, Part, Place, Position};

/// Offsets of everything a fault can point at. Bytes, as the lexer counts them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SourceMap {
    pub(super) declarations: Vec<u32>,
    pub(super) traces: Vec<TraceMap>,
    /// Offsets of line beginnings.
    lines: Vec<u32>,
}

/// Of one trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TraceMap {
    pub head: u32,
    pub params: Vec<u32>,
    /// In the order of the text, those of blocks included.
    pub stmts: Vec<StmtMap>,
    pub outputs: Vec<u32>,
    pub saves: Vec<u32>,
}

/// Of one statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct StmtMap {
    pub head: u32,
    pub results: Vec<u32>,
    pub args: Vec<u32>,
    pub yields: Vec<u32>,
}

impl SourceMap {
    pub(super) fn new(text: &str) -> SourceMap {
        let ends = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at as u32 + 1);
        SourceMap { lines: std::iter::once(0).chain(ends).collect(), ..SourceMap::default() }
    }

    /// Line and column of a byte of the text that the map was made of.
    pub(super) fn position(&self, text: &str, at: u32) -> Position {
        let line = self.lines.partition_point(|l| *l <= at).max(1) - 1;
        let start = self.lines.get(line).copied().unwrap_or(0);
        let column = text.get(start as usize..at as usize).map_or(0, |t| t.chars().count());
        Position { line: line as u32 + 1, column: column as u32 + 1 }
    }

    /// Gives the fault its position in `text`, from its place.
    pub fn locate(&self, text: &str, fault: &mut Fault) {
        if fault.position.is_none() {
            fault.position = fault.place.and_then(|p| self.offset(p)).map(|at| self.position(text, at));
        }
    }

    /// Positions for all faults, which are then in the order of the text.
    pub fn locate_all(&self, text: &str, mut faults: Vec<Fault>) -> Option<Faults> {
        faults.iter_mut().for_each(|f| self.locate(text, f));
        faults.sort_by_key(|f| f.position);
        Faults::of(faults)
    }

    fn offset(&self, place: Place) -> Option<u32> {
        let Some(trace) = place.trace else {
            let Part::Param(i) = place.part else { return None };
            return self.declarations.get(i as usize).copied();
        };
        let trace = self.traces.get(trace as usize)?;
        let Some(stmt) = place.stmt else {
            let list = match place.part {
                Part::Param(i) => trace.params.get(i as usize),
                Part::Output(i) => trace.outputs.get(i as usize),
                Part::Save(i) => trace.saves.get(i as usize),
                _ => None,
            };
            return Some(list.copied().unwrap_or(trace.head));
        };
        let stmt = trace.stmts.get(stmt as usize)?;
        let list = match place.part {
            Part::Result(i) => stmt.results.get(i as usize),
            Part::Arg(i) => stmt.args.get(i as usize),
            Part::Yield(i) => stmt.yields.get(i as usize),
            _ => None,
        };
        Some(list.copied().unwrap_or(stmt.head))
    }
}
