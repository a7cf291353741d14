//! What training makes small: a loss of the program's first output, appended to its trace.

use super::OpError;
use super::build::{Builder, Tensor};
use super::optim::unused_name;
use crate::ir::{Arg, Dim, Dtype, Output, Role, RoleKind, TensorType, Trace, TraceParam, Type};

/// A loss of `out0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// `out0` itself, a single number.
    Output,
    /// The mean of the squared differences between `out0` and `target`.
    Mse,
    /// The mean cross entropy of the classes on the last axis of `out0`; `target` is i64, one index for each element of
    /// the other axes, and -100 where nothing is to be learned.
    CrossEntropy,
}

/// The name of the input that a loss adds.
pub const TARGET: &str = "target";

impl Loss {
    /// The type of the target for an output of that type; none where it takes no target.
    fn target_type(self, out: &TensorType) -> Result<Option<TensorType>, String> {
        let shown = || format!("`out0` is {}{}", out.dtype, super::meta::show(&out.dims));
        if !out.dtype.is_float() {
            return Err(format!("{}, a loss needs floats", shown()));
        }
        match self {
            Loss::Output if out.numel().known() != Some(1) => {
                Err(format!("{}, as a loss it must be a single number", shown()))
            }
            Loss::Output => Ok(None),
            Loss::Mse => Ok(Some(out.clone())),
            Loss::CrossEntropy => match out.dims.split_last() {
                None => Err(format!("{}, there is no axis of classes", shown())),
                Some((_, rest)) => Ok(Some(TensorType {
                    dims: rest.to_vec(),
                    dtype: Dtype::I64,
                    device: out.device.clone(),
                })),
            },
        }
    }

    fn emit(self, b: &mut Builder<'_>, out: &Tensor, target: Option<&Tensor>) -> Result<Tensor, OpError> {
        match (self, target) {
            (Loss::Mse, Some(target)) => b.tensor("torch.mse_loss", vec![out.arg(), target.arg()]),
            (Loss::CrossEntropy, Some(target)) => {
                // The op has its classes on axis 1: all other axes are one.
                let n = Dim::product(target.dims());
                let classes = out.dims().last().cloned().unwrap_or(Dim::Known(1));
                let rows = b.reshape(out, &[n.clone(), classes])?;
                let target = b.reshape(target, &[n])?;
                b.tensor("torch.cross_entropy", vec![rows.arg(), target.arg()])
            }
            _ => Ok(out.clone()),
        }
    }

    /// Makes the loss the only output of the trace; a loss with a target adds an input of the name [`TARGET`] behind all
    /// parameters. The error is a sentence about the program.
    pub fn append(self, trace: &mut Trace) -> Result<(), String> {
        let out = trace.outputs.first().and_then(|o| o.value.value());
        let Some(out) = out.filter(|v| trace.ty(*v).tensor().is_some()) else {
            return Err("the program's first output is no tensor".to_owned());
        };
        let Type::Tensor(ty) = trace.ty(out).clone() else { return Ok(()) };
        let target = match self.target_type(&ty)? {
            None => None,
            Some(ty) => {
                let name = unused_name(trace, TARGET);
                let value = trace.add_value(name, ty.into());
                let role = Role { kind: RoleKind::Input, name: Some(TARGET.into()), frozen: false };
                trace.params.push(TraceParam { value, role });
                Some(value)
            }
        };
        let prefix = unused_name(trace, "loss");
        let mut b = Builder::nested(trace, prefix);
        let mut emitted = || {
            let out = b.as_tensor(out)?;
            let target = target.map(|v| b.as_tensor(v)).transpose()?;
            self.emit(&mut b, &out, target.as_ref())
        };
        let loss = emitted().map_err(|e| e.to_string())?;
        let body = b.finish();
        trace.body.extend(body);
        trace.outputs = vec![Output { value: Arg::Value(loss.id), name: Some("loss".into()) }];
        Ok(())
    }
}
