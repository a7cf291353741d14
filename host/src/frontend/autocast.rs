//! Regions under autocast: inlined, with the casts that PyTorch makes when they run.
//!
//! The file records the region's ops without its casts, each result with the dtype that it has under them. Autocast casts
//! the floating operands (f64 excepted) of the matmul family to the low dtype and those of some losses and factorisations
//! to f32, and leaves all others to type promotion. Where an op is none of these and still has a low result of operands
//! that are not, it is a composite of the first kind (`einsum`, the recurrent nets).
//! The lists are those of PyTorch's CPU autocast.

use super::ModelResult;
use super::import::Importer;
use super::pt2::graph::{Argument, Node};
use crate::ir::{Arg, Dtype, Type};
use crate::ops::AtenArg;

/// Ops whose operands are cast to the low dtype, by name without overload; sorted.
static LOW: &[&str] = &[
    "_convolution",
    "_native_multi_head_attention",
    "addbmm",
    "addmm",
    "baddbmm",
    "bmm",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "linalg_vecdot",
    "linear",
    "matmul",
    "mkldnn_rnn_layer",
    "mm",
    "prelu",
    "scaled_dot_product_attention",
];

/// Ops whose operands are cast to f32; sorted.
static FULL: &[&str] = &[
    "adaptive_avg_pool3d",
    "avg_pool3d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cdist",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "cosine_embedding_loss",
    "cross_entropy_loss",
    "ctc_loss",
    "fft_fft",
    "fft_fft2",
    "fft_fftn",
    "fft_hfft",
    "fft_ifft",
    "fft_ifft2",
    "fft_ifftn",
    "fft_ihfft",
    "fft_irfft",
    "fft_irfft2",
    "fft_irfftn",
    "fft_rfft",
    "fft_rfft2",
    "fft_rfftn",
    "geqrf",
    "grid_sampler",
    "hinge_embedding_loss",
    "huber_loss",
    "inverse",
    "kl_div",
    "l1_loss",
    "linalg_cholesky",
    "linalg_cholesky_ex",
    "linalg_cond",
    "linalg_eig",
    "linalg_eigh",
    "linalg_eigvals",
    "linalg_eigvalsh",
    "linalg_householder_product",
    "linalg_inv",
    "linalg_inv_ex",
    "linalg_lstsq",
    "linalg_matrix_rank",
    "linalg_qr",
    "linalg_solve",
    "linalg_svd",
    "linalg_svdvals",
    "linalg_tensorinv",
    "linalg_tensorsolve",
    "logdet",
    "lu_solve",
    "margin_ranking_loss",
    "max_pool3d",
    "max_unpool2d",
    "max_unpool3d",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nanquantile",
    "nll_loss",
    "nll_loss2d",
    "orgqr",
    "ormqr",
    "pinverse",
    "poisson_nll_loss",
    "polar",
    "prod",
    "qr",
    "quantile",
    "reflection_pad1d",
    "reflection_pad2d",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "smooth_l1_loss",
    "soft_margin_loss",
    "stft",
    "svd",
    "trace",
    "triplet_margin_loss",
    "view_as_complex",
];

impl<'a> Importer<'a> {
    /// `torch.autocast` inside the model: its nodes are walked where they stand.
    pub(super) fn autocast_region(&mut self, node: &'a Node) -> ModelResult<()> {
        let (device, dtype, enabled, region, operands) = match &node.inputs[..] {
            [device, dtype, enabled, _, region, operands @ ..] => match (&enabled.arg, &region.arg) {
                (Argument::Bool(enabled), Argument::Graph(region)) => {
                    (&device.arg, &dtype.arg, *enabled, region, operands)
                }
                _ => return Err(self.argument_error("region", "must be a bool and a graph")),
            },
            _ => return Err(self.argument_error("region", "is missing")),
        };
        let dtype = match (dtype, device) {
            (Argument::ScalarType(number), _) => self.dtype("dtype", *number)?,
            // What each kind of device takes when nothing is said.
            (_, Argument::Str(device)) if device == "cpu" => Dtype::Bf16,
            _ => Dtype::F16,
        };
        let mut entities = Vec::with_capacity(operands.len());
        for operand in operands {
            entities.extend(self.entities(&operand.arg)?);
        }
        let before = std::mem::replace(&mut self.autocast, enabled.then_some(dtype));
        let results = self.inline(region, entities);
        self.autocast = before;
        let results = results?;
        self.enter(node);
        self.define_region_results(node, results, &|_| true)
    }

    /// The arguments of a call as autocast hands them on; `recorded` are the types of its results.
    pub(super) fn autocast(
        &mut self,
        overload: &str,
        args: Vec<AtenArg>,
        recorded: &[Option<Type>],
    ) -> ModelResult<Vec<AtenArg>> {
        let Some(low) = self.autocast else { return Ok(args) };
        let op = overload.split('.').next().unwrap_or(overload);
        let is_low = |ty: &Option<Type>| ty.as_ref().and_then(Type::tensor).is_some_and(|t| t.dtype == low);
        let wanted = if LOW.binary_search(&op).is_ok() {
            low
        } else if FULL.binary_search(&op).is_ok() {
            Dtype::F32
        } else if recorded.iter().any(is_low) && !self.explains(&args, low) {
            low
        } else {
            return Ok(args);
        };
        args.into_iter()
            .map(|arg| Ok(AtenArg { value: self.cast_for_autocast(arg.value, wanted)?, ..arg }))
            .collect()
    }

    /// Is a result of that dtype no wonder: an operand has it, or an argument asks for it?
    fn explains(&self, args: &[AtenArg], dtype: Dtype) -> bool {
        let mut any = false;
        for arg in args {
            any |= arg.value == Arg::Dtype(dtype);
            arg.value.for_each_value(&mut |v| {
                any |= self.trace.ty(v).tensor().is_some_and(|t| t.dtype == dtype);
            });
        }
        any
    }

    fn cast_for_autocast(&mut self, arg: Arg, wanted: Dtype) -> ModelResult<Arg> {
        match arg {
            Arg::List(items) => {
                let cast = items.into_iter().map(|item| self.cast_for_autocast(item, wanted));
                cast.collect::<ModelResult<_>>().map(Arg::List)
            }
            Arg::Value(value) => {
                let dtype = self.trace.ty(value).tensor().map(|t| t.dtype);
                let casts = dtype.is_some_and(|d| d.is_float() && d != Dtype::F64 && d != wanted);
                if !casts {
                    return Ok(arg);
                }
                let args = vec![arg, Arg::Dtype(wanted)];
                self.emit(|b| b.tensor("prims.convert_element_type", args)).map(|t| t.arg())
            }
            other => Ok(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_for_the_search() {
        assert!(LOW.is_sorted() && FULL.is_sorted());
        assert!(LOW.iter().all(|op| FULL.binary_search(op).is_err()));
    }
}
