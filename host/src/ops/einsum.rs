//! `torch.einsum` taken apart: labels, then one pair of operands after the other.
//!
//! Each operand is brought to distinct labels (diagonals); labels that no later operand and not the result needs are
//! summed at once; shared ones that are needed are batch dims of a matmul, shared ones that are not are contracted.
//! A dim of 1 broadcasts, as in PyTorch. Deliberately absent: a search for a cheaper order than left to right.

use super::arith::Built;
use super::build::{Builder, Tensor};
use super::{Call, OpError};
use crate::ir::{Arg, Dim};

/// A label: a letter as its code, or a dim of the ellipsis counted from its end as -1, -2, ….
type Label = i32;

/// A tensor with a label for each dim.
struct Labelled {
    x: Tensor,
    labels: Vec<Label>,
}

/// The decomposition of `torch.einsum`.
pub fn decompose(b: &mut Builder<'_>, call: &Call) -> Result<Vec<Arg>, OpError> {
    let equation: String = call.str("equation")?.chars().filter(|c| *c != ' ').collect();
    let tensors = call.tensors("tensors")?;
    let (inputs, output) = match equation.split_once("->") {
        Some((i, o)) => (i, Some(o)),
        None => (&*equation, None),
    };
    let terms: Vec<&str> = inputs.split(',').collect();
    if terms.len() != tensors.len() || tensors.is_empty() {
        let what = format!("`{equation}` has {} operands, {} are given", terms.len(), tensors.len());
        return Err(call.error(what));
    }
    let mut operands = Vec::new();
    for (term, x) in terms.iter().zip(tensors) {
        let labels = labels_of(call, term, Some(x.rank()))?;
        operands.push(distinct(b, Labelled { x, labels })?);
    }
    let output = match output {
        Some(o) => output_labels(call, o, &operands)?,
        None => implicit_output(&terms, &operands),
    };
    let mut operands = operands.into_iter();
    let mut done = operands.next().expect("there is an operand for each term");
    let rest: Vec<Labelled> = operands.collect();
    for (i, next) in rest.iter().enumerate() {
        let needed = |l: &Label| output.contains(l) || rest[i + 1..].iter().any(|o| o.labels.contains(l));
        done = contract(b, done, next, &needed)?;
    }
    let done = sum_out(b, done, &|l| output.contains(l))?;
    Ok(vec![arranged(b, &done, &output)?.arg()])
}

/// The labels of one term; `rank` says how many dims its ellipsis has (none: as many as asked for by the caller).
fn labels_of(call: &Call, term: &str, rank: Option<usize>) -> Result<Vec<Label>, OpError> {
    let letters = |t: &str| -> Result<Vec<Label>, OpError> {
        t.chars()
            .map(|c| match c {
                'a'..='z' | 'A'..='Z' => Ok(c as Label),
                c => Err(call.error(format!("`{c}` is no label in `{term}`"))),
            })
            .collect()
    };
    let Some((before, after)) = term.split_once("...") else {
        let labels = letters(term)?;
        return match rank {
            Some(n) if n != labels.len() => {
                Err(call.error(format!("`{term}` has {} labels, its tensor {n} dims", labels.len())))
            }
            _ => Ok(labels),
        };
    };
    let (before, after) = (letters(before)?, letters(after)?);
    let known = before.len() + after.len();
    let Some(hidden) = rank.unwrap_or(known).checked_sub(known) else {
        let what = format!("`{term}` has {known} labels, its tensor {} dims", rank.unwrap_or(0));
        return Err(call.error(what));
    };
    Ok([before, ellipsis(hidden), after].concat())
}

fn ellipsis(n: usize) -> Vec<Label> {
    (1..=n as Label).rev().map(|i| -i).collect()
}

fn widest_ellipsis(operands: &[Labelled]) -> usize {
    let lowest = operands.iter().flat_map(|o| o.labels.iter().copied()).min().unwrap_or(0);
    lowest.min(0).unsigned_abs() as usize
}

fn output_labels(call: &Call, term: &str, operands: &[Labelled]) -> Result<Vec<Label>, OpError> {
    let letters = term.chars().filter(char::is_ascii_alphabetic).count();
    let labels = labels_of(call, term, term.contains("...").then(|| letters + widest_ellipsis(operands)))?;
    for (i, l) in labels.iter().enumerate() {
        let shown = char::from_u32(*l as u32).unwrap_or('.');
        if labels[..i].contains(l) {
            return Err(call.error(format!("label `{shown}` stands twice in the result")));
        }
        if !operands.iter().any(|o| o.labels.contains(l)) {
            return Err(call.error(format!("label `{shown}` of the result is in no operand")));
        }
    }
    Ok(labels)
}

/// Without `->`: the ellipsis, then the letters that stand once in all terms together, in the order of their codes.
fn implicit_output(terms: &[&str], operands: &[Labelled]) -> Vec<Label> {
    let mut letters: Vec<char> =
        terms.iter().flat_map(|t| t.chars()).filter(char::is_ascii_alphabetic).collect();
    letters.sort_unstable();
    let once = letters.chunk_by(|a, b| a == b).filter(|c| c.len() == 1).map(|c| c[0] as Label);
    ellipsis(widest_ellipsis(operands)).into_iter().chain(once).collect()
}

/// Repeated labels become the diagonal of their dims.
fn distinct(b: &mut Builder<'_>, mut o: Labelled) -> Result<Labelled, OpError> {
    while let Some((i, j)) = repeated(&o.labels) {
        let args = vec![o.x.arg(), Arg::Int(0), Arg::Int(i as i64), Arg::Int(j as i64)];
        o.x = b.tensor("prims.diagonal", args)?;
        let label = o.labels.remove(j);
        o.labels.remove(i);
        o.labels.push(label);
    }
    Ok(o)
}

fn repeated(labels: &[Label]) -> Option<(usize, usize)> {
    labels.iter().enumerate().find_map(|(j, l)| labels[..j].iter().position(|m| m == l).map(|i| (i, j)))
}

fn sum_out(b: &mut Builder<'_>, o: Labelled, needed: &dyn Fn(&Label) -> bool) -> Result<Labelled, OpError> {
    let axes: Vec<usize> = (0..o.labels.len()).filter(|i| !needed(&o.labels[*i])).collect();
    if axes.is_empty() {
        return Ok(o);
    }
    let labels = o.labels.iter().copied().filter(needed).collect();
    Ok(Labelled { x: b.sum(&o.x, &axes)?, labels })
}

/// A dim of 1 that the other operand has with more than 1 multiplies like no dim at all.
fn without_ones(b: &mut Builder<'_>, o: Labelled, other: &Labelled) -> Result<Labelled, OpError> {
    let broadcasts = |i: usize| {
        let theirs = other.labels.iter().position(|l| *l == o.labels[i]).map(|j| &other.x.dims()[j]);
        o.x.dims()[i].is(1) && theirs.is_some_and(|d| !d.is(1))
    };
    let axes: Vec<usize> = (0..o.labels.len()).filter(|i| broadcasts(*i)).collect();
    let labels = (0..o.labels.len()).filter(|i| !axes.contains(i)).map(|i| o.labels[i]).collect();
    Ok(Labelled { x: b.squeeze(&o.x, &axes)?, labels })
}

/// The product of both over what they share and nobody needs later.
fn contract(
    b: &mut Builder<'_>,
    x: Labelled,
    y: &Labelled,
    needed: &dyn Fn(&Label) -> bool,
) -> Result<Labelled, OpError> {
    let y = without_ones(b, Labelled { x: y.x.clone(), labels: y.labels.clone() }, &x)?;
    let x = without_ones(b, x, &y)?;
    let x = sum_out(b, x, &|l| needed(l) || y.labels.contains(l))?;
    let y = sum_out(b, y, &|l| needed(l) || x.labels.contains(l))?;
    let shared = |l: &&Label| y.labels.contains(l);
    let batch: Vec<Label> = x.labels.iter().filter(shared).filter(|l| needed(l)).copied().collect();
    let inner: Vec<Label> = x.labels.iter().filter(shared).filter(|l| !needed(l)).copied().collect();
    let rows: Vec<Label> = x.labels.iter().filter(|l| !shared(l)).copied().collect();
    let columns: Vec<Label> = y.labels.iter().filter(|l| !x.labels.contains(l)).copied().collect();
    let labels = [&batch[..], &rows, &columns].concat();
    if inner.is_empty() {
        let (xp, yp) = (aligned(b, &x, &labels)?, aligned(b, &y, &labels)?);
        return Ok(Labelled { x: b.mul(&xp, &yp)?, labels });
    }
    let dims_of = |o: &Labelled, ls: &[Label]| -> Vec<Dim> { ls.iter().map(|l| dim_of(o, *l)).collect() };
    let (bd, rd, cd) = (dims_of(&x, &batch), dims_of(&x, &rows), dims_of(&y, &columns));
    let k = Dim::product(&dims_of(&x, &inner));
    let xp = arranged(b, &x, &[&batch[..], &rows, &inner].concat())?;
    let yp = arranged(b, &y, &[&batch[..], &inner, &columns].concat())?;
    let flat = |m: Dim, n: Dim| match batch.is_empty() {
        true => vec![m, n],
        false => vec![Dim::product(&bd), m, n],
    };
    let xp = b.reshape(&xp, &flat(Dim::product(&rd), k.clone()))?;
    let yp = b.reshape(&yp, &flat(k, Dim::product(&cd)))?;
    let p = b.matmul(&xp, &yp)?;
    Ok(Labelled { x: b.reshape(&p, &[bd.clone(), rd, cd].concat())?, labels })
}

fn dim_of(o: &Labelled, label: Label) -> Dim {
    let at = o.labels.iter().position(|l| *l == label).expect("asked only for labels of the operand");
    o.x.dims()[at].clone()
}

/// Its dims in the order of `labels`, all of which it has.
fn arranged(b: &mut Builder<'_>, o: &Labelled, labels: &[Label]) -> Built {
    let at = |l: &Label| o.labels.iter().position(|m| m == l).expect("the operand has the label");
    let permutation: Vec<usize> = labels.iter().map(at).collect();
    b.permute(&o.x, &permutation)
}

/// Its dims in the order of `labels`, with a dim of 1 for each that it lacks.
fn aligned(b: &mut Builder<'_>, o: &Labelled, labels: &[Label]) -> Built {
    let own: Vec<Label> = labels.iter().filter(|l| o.labels.contains(l)).copied().collect();
    let x = arranged(b, o, &own)?;
    let missing: Vec<usize> = (0..labels.len()).filter(|i| !o.labels.contains(&labels[*i])).collect();
    let dims: Vec<Dim> =
        labels.iter().map(|l| if o.labels.contains(l) { dim_of(o, *l) } else { Dim::Known(1) }).collect();
    b.spread(&x, &dims, &missing)
}

#[cfg(test)]
mod tests {
    use crate::ir::{Arg, Dtype, Stage, TensorType, Trace};
    use crate::ops::Builder;
    use crate::ops::meta::show;

    /// The dims of the result, or why there is none.
    fn einsum(equation: &str, operands: &[&[i64]]) -> Result<String, String> {
        let mut trace = Trace::new("t", Stage::Acquired);
        let mut list = Vec::new();
        for dims in operands {
            let dims: Vec<_> = dims.iter().map(|d| (*d).into()).collect();
            let name = format!("x{}", list.len());
            list.push(Arg::Value(trace.add_value(name, TensorType::new(dims, Dtype::F32).into())));
        }
        let mut b = Builder::top(&mut trace);
        let r = b.tensor("torch.einsum", vec![Arg::str(equation), Arg::List(list)]);
        r.map(|t| show(t.dims())).map_err(|e| e.what)
    }

    #[test]
    fn labels_decide_the_dims_of_the_result() {
        for (equation, operands, want) in [
            ("ij,jk->ik", &[&[2, 3][..], &[3, 4]][..], "[2, 4]"),
            ("ba,ca", &[&[2, 3], &[4, 3]], "[2, 4]"),
            ("...ij->...ji", &[&[5, 2, 3]], "[5, 3, 2]"),
            ("b...,...c", &[&[2, 3], &[3, 4]], "[3, 2, 4]"),
            ("ii->i", &[&[3, 3]], "[3]"),
            ("ij,j->i", &[&[1, 3], &[3]], "[1]"),
        ] {
            assert_eq!(einsum(equation, operands).as_deref(), Ok(want), "{equation}");
        }
    }

    #[test]
    fn bad_equations_are_refused() {
        for (equation, operands, part) in [
            ("ij->ik", &[&[2, 3][..]][..], "label `k`"),
            ("ij->ii", &[&[2, 3]], "twice"),
            ("ijk", &[&[2, 3]], "3 labels"),
            ("i1", &[&[2, 3]], "`1` is no label"),
            ("i,j", &[&[2]], "2 operands"),
        ] {
            let refused = einsum(equation, operands).expect_err(equation);
            assert!(refused.contains(part), "{equation}: {refused}");
        }
    }
}
