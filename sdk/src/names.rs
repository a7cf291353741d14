//! Names of the ops in the host's table, a constant each. Written by `cargo xtask codegen`; not edited by hand.

/// `num.*`
pub mod num {
    /// `num.add`
    pub const ADD: &str = "num.add";
    /// `num.and`
    pub const AND: &str = "num.and";
    /// `num.ceil`
    pub const CEIL: &str = "num.ceil";
    /// `num.eq`
    pub const EQ: &str = "num.eq";
    /// `num.float`
    pub const FLOAT: &str = "num.float";
    /// `num.floor`
    pub const FLOOR: &str = "num.floor";
    /// `num.floordiv`
    pub const FLOORDIV: &str = "num.floordiv";
    /// `num.ge`
    pub const GE: &str = "num.ge";
    /// `num.gt`
    pub const GT: &str = "num.gt";
    /// `num.int`
    pub const INT: &str = "num.int";
    /// `num.ite`
    pub const ITE: &str = "num.ite";
    /// `num.le`
    pub const LE: &str = "num.le";
    /// `num.lshift`
    pub const LSHIFT: &str = "num.lshift";
    /// `num.lt`
    pub const LT: &str = "num.lt";
    /// `num.max`
    pub const MAX: &str = "num.max";
    /// `num.min`
    pub const MIN: &str = "num.min";
    /// `num.mod`
    pub const MOD: &str = "num.mod";
    /// `num.mul`
    pub const MUL: &str = "num.mul";
    /// `num.ne`
    pub const NE: &str = "num.ne";
    /// `num.neg`
    pub const NEG: &str = "num.neg";
    /// `num.not`
    pub const NOT: &str = "num.not";
    /// `num.or`
    pub const OR: &str = "num.or";
    /// `num.pow`
    pub const POW: &str = "num.pow";
    /// `num.rshift`
    pub const RSHIFT: &str = "num.rshift";
    /// `num.sqrt`
    pub const SQRT: &str = "num.sqrt";
    /// `num.sub`
    pub const SUB: &str = "num.sub";
    /// `num.truediv`
    pub const TRUEDIV: &str = "num.truediv";
}

/// `optim.*`
pub mod optim {
    /// `optim.adam`
    pub const ADAM: &str = "optim.adam";
    /// `optim.adamw`
    pub const ADAMW: &str = "optim.adamw";
    /// `optim.sgd`
    pub const SGD: &str = "optim.sgd";
}

/// `prims.*`
pub mod prims {
    /// `prims.abs`
    pub const ABS: &str = "prims.abs";
    /// `prims.acos`
    pub const ACOS: &str = "prims.acos";
    /// `prims.acosh`
    pub const ACOSH: &str = "prims.acosh";
    /// `prims.adaptive_avg_pool`
    pub const ADAPTIVE_AVG_POOL: &str = "prims.adaptive_avg_pool";
    /// `prims.adaptive_avg_pool_backward`
    pub const ADAPTIVE_AVG_POOL_BACKWARD: &str = "prims.adaptive_avg_pool_backward";
    /// `prims.adaptive_max_pool`
    pub const ADAPTIVE_MAX_POOL: &str = "prims.adaptive_max_pool";
    /// `prims.add`
    pub const ADD: &str = "prims.add";
    /// `prims.amax`
    pub const AMAX: &str = "prims.amax";
    /// `prims.amin`
    pub const AMIN: &str = "prims.amin";
    /// `prims.argmax`
    pub const ARGMAX: &str = "prims.argmax";
    /// `prims.argmin`
    pub const ARGMIN: &str = "prims.argmin";
    /// `prims.as_strided`
    pub const AS_STRIDED: &str = "prims.as_strided";
    /// `prims.asin`
    pub const ASIN: &str = "prims.asin";
    /// `prims.asinh`
    pub const ASINH: &str = "prims.asinh";
    /// `prims.atan`
    pub const ATAN: &str = "prims.atan";
    /// `prims.atan2`
    pub const ATAN2: &str = "prims.atan2";
    /// `prims.atanh`
    pub const ATANH: &str = "prims.atanh";
    /// `prims.avg_pool`
    pub const AVG_POOL: &str = "prims.avg_pool";
    /// `prims.avg_pool_backward`
    pub const AVG_POOL_BACKWARD: &str = "prims.avg_pool_backward";
    /// `prims.bessel_i0`
    pub const BESSEL_I0: &str = "prims.bessel_i0";
    /// `prims.bitcast`
    pub const BITCAST: &str = "prims.bitcast";
    /// `prims.bitwise_and`
    pub const BITWISE_AND: &str = "prims.bitwise_and";
    /// `prims.bitwise_left_shift`
    pub const BITWISE_LEFT_SHIFT: &str = "prims.bitwise_left_shift";
    /// `prims.bitwise_not`
    pub const BITWISE_NOT: &str = "prims.bitwise_not";
    /// `prims.bitwise_or`
    pub const BITWISE_OR: &str = "prims.bitwise_or";
    /// `prims.bitwise_right_shift`
    pub const BITWISE_RIGHT_SHIFT: &str = "prims.bitwise_right_shift";
    /// `prims.bitwise_xor`
    pub const BITWISE_XOR: &str = "prims.bitwise_xor";
    /// `prims.broadcast_in_dim`
    pub const BROADCAST_IN_DIM: &str = "prims.broadcast_in_dim";
    /// `prims.cat`
    pub const CAT: &str = "prims.cat";
    /// `prims.ceil`
    pub const CEIL: &str = "prims.ceil";
    /// `prims.check`
    pub const CHECK: &str = "prims.check";
    /// `prims.cholesky`
    pub const CHOLESKY: &str = "prims.cholesky";
    /// `prims.clone`
    pub const CLONE: &str = "prims.clone";
    /// `prims.comment`
    pub const COMMENT: &str = "prims.comment";
    /// `prims.cond`
    pub const COND: &str = "prims.cond";
    /// `prims.conj`
    pub const CONJ: &str = "prims.conj";
    /// `prims.convert_element_type`
    pub const CONVERT_ELEMENT_TYPE: &str = "prims.convert_element_type";
    /// `prims.convolution`
    pub const CONVOLUTION: &str = "prims.convolution";
    /// `prims.convolution_backward`
    pub const CONVOLUTION_BACKWARD: &str = "prims.convolution_backward";
    /// `prims.copy_`
    pub const COPY_: &str = "prims.copy_";
    /// `prims.copysign`
    pub const COPYSIGN: &str = "prims.copysign";
    /// `prims.cos`
    pub const COS: &str = "prims.cos";
    /// `prims.cosh`
    pub const COSH: &str = "prims.cosh";
    /// `prims.cummax`
    pub const CUMMAX: &str = "prims.cummax";
    /// `prims.cumprod`
    pub const CUMPROD: &str = "prims.cumprod";
    /// `prims.cumsum`
    pub const CUMSUM: &str = "prims.cumsum";
    /// `prims.del`
    pub const DEL: &str = "prims.del";
    /// `prims.device_put`
    pub const DEVICE_PUT: &str = "prims.device_put";
    /// `prims.diagonal`
    pub const DIAGONAL: &str = "prims.diagonal";
    /// `prims.digamma`
    pub const DIGAMMA: &str = "prims.digamma";
    /// `prims.div`
    pub const DIV: &str = "prims.div";
    /// `prims.embedding`
    pub const EMBEDDING: &str = "prims.embedding";
    /// `prims.embedding_backward`
    pub const EMBEDDING_BACKWARD: &str = "prims.embedding_backward";
    /// `prims.empty`
    pub const EMPTY: &str = "prims.empty";
    /// `prims.eq`
    pub const EQ: &str = "prims.eq";
    /// `prims.erf`
    pub const ERF: &str = "prims.erf";
    /// `prims.erfc`
    pub const ERFC: &str = "prims.erfc";
    /// `prims.erfcinv`
    pub const ERFCINV: &str = "prims.erfcinv";
    /// `prims.erfinv`
    pub const ERFINV: &str = "prims.erfinv";
    /// `prims.exp`
    pub const EXP: &str = "prims.exp";
    /// `prims.exp2`
    pub const EXP2: &str = "prims.exp2";
    /// `prims.expm1`
    pub const EXPM1: &str = "prims.expm1";
    /// `prims.fft_c2c`
    pub const FFT_C2C: &str = "prims.fft_c2c";
    /// `prims.fft_c2r`
    pub const FFT_C2R: &str = "prims.fft_c2r";
    /// `prims.fft_r2c`
    pub const FFT_R2C: &str = "prims.fft_r2c";
    /// `prims.flip`
    pub const FLIP: &str = "prims.flip";
    /// `prims.floor`
    pub const FLOOR: &str = "prims.floor";
    /// `prims.fma`
    pub const FMA: &str = "prims.fma";
    /// `prims.fmod`
    pub const FMOD: &str = "prims.fmod";
    /// `prims.frexp`
    pub const FREXP: &str = "prims.frexp";
    /// `prims.full`
    pub const FULL: &str = "prims.full";
    /// `prims.gather`
    pub const GATHER: &str = "prims.gather";
    /// `prims.ge`
    pub const GE: &str = "prims.ge";
    /// `prims.get_grad`
    pub const GET_GRAD: &str = "prims.get_grad";
    /// `prims.grouped_mm`
    pub const GROUPED_MM: &str = "prims.grouped_mm";
    /// `prims.gt`
    pub const GT: &str = "prims.gt";
    /// `prims.imag`
    pub const IMAG: &str = "prims.imag";
    /// `prims.index`
    pub const INDEX: &str = "prims.index";
    /// `prims.index_add`
    pub const INDEX_ADD: &str = "prims.index_add";
    /// `prims.index_copy`
    pub const INDEX_COPY: &str = "prims.index_copy";
    /// `prims.index_put`
    pub const INDEX_PUT: &str = "prims.index_put";
    /// `prims.iota`
    pub const IOTA: &str = "prims.iota";
    /// `prims.isfinite`
    pub const ISFINITE: &str = "prims.isfinite";
    /// `prims.item`
    pub const ITEM: &str = "prims.item";
    /// `prims.le`
    pub const LE: &str = "prims.le";
    /// `prims.lerp`
    pub const LERP: &str = "prims.lerp";
    /// `prims.lgamma`
    pub const LGAMMA: &str = "prims.lgamma";
    /// `prims.linear`
    pub const LINEAR: &str = "prims.linear";
    /// `prims.log`
    pub const LOG: &str = "prims.log";
    /// `prims.log10`
    pub const LOG10: &str = "prims.log10";
    /// `prims.log1p`
    pub const LOG1P: &str = "prims.log1p";
    /// `prims.log2`
    pub const LOG2: &str = "prims.log2";
    /// `prims.logcumsumexp`
    pub const LOGCUMSUMEXP: &str = "prims.logcumsumexp";
    /// `prims.lt`
    pub const LT: &str = "prims.lt";
    /// `prims.matmul`
    pub const MATMUL: &str = "prims.matmul";
    /// `prims.max_pool`
    pub const MAX_POOL: &str = "prims.max_pool";
    /// `prims.max_pool_backward`
    pub const MAX_POOL_BACKWARD: &str = "prims.max_pool_backward";
    /// `prims.maximum`
    pub const MAXIMUM: &str = "prims.maximum";
    /// `prims.minimum`
    pub const MINIMUM: &str = "prims.minimum";
    /// `prims.mul`
    pub const MUL: &str = "prims.mul";
    /// `prims.multinomial_philox`
    pub const MULTINOMIAL_PHILOX: &str = "prims.multinomial_philox";
    /// `prims.ndtri`
    pub const NDTRI: &str = "prims.ndtri";
    /// `prims.ne`
    pub const NE: &str = "prims.ne";
    /// `prims.neg`
    pub const NEG: &str = "prims.neg";
    /// `prims.next_philox`
    pub const NEXT_PHILOX: &str = "prims.next_philox";
    /// `prims.nextafter`
    pub const NEXTAFTER: &str = "prims.nextafter";
    /// `prims.nonzero`
    pub const NONZERO: &str = "prims.nonzero";
    /// `prims.pad`
    pub const PAD: &str = "prims.pad";
    /// `prims.polygamma`
    pub const POLYGAMMA: &str = "prims.polygamma";
    /// `prims.pow`
    pub const POW: &str = "prims.pow";
    /// `prims.prod`
    pub const PROD: &str = "prims.prod";
    /// `prims.put_grad`
    pub const PUT_GRAD: &str = "prims.put_grad";
    /// `prims.randint_philox`
    pub const RANDINT_PHILOX: &str = "prims.randint_philox";
    /// `prims.randn_philox`
    pub const RANDN_PHILOX: &str = "prims.randn_philox";
    /// `prims.randperm_philox`
    pub const RANDPERM_PHILOX: &str = "prims.randperm_philox";
    /// `prims.real`
    pub const REAL: &str = "prims.real";
    /// `prims.reciprocal`
    pub const RECIPROCAL: &str = "prims.reciprocal";
    /// `prims.remainder`
    pub const REMAINDER: &str = "prims.remainder";
    /// `prims.reshape`
    pub const RESHAPE: &str = "prims.reshape";
    /// `prims.return`
    pub const RETURN: &str = "prims.return";
    /// `prims.round`
    pub const ROUND: &str = "prims.round";
    /// `prims.rsqrt`
    pub const RSQRT: &str = "prims.rsqrt";
    /// `prims.scan`
    pub const SCAN: &str = "prims.scan";
    /// `prims.scatter`
    pub const SCATTER: &str = "prims.scatter";
    /// `prims.scatter_add`
    pub const SCATTER_ADD: &str = "prims.scatter_add";
    /// `prims.scatter_reduce`
    pub const SCATTER_REDUCE: &str = "prims.scatter_reduce";
    /// `prims.searchsorted`
    pub const SEARCHSORTED: &str = "prims.searchsorted";
    /// `prims.set_data`
    pub const SET_DATA: &str = "prims.set_data";
    /// `prims.shallow_copy`
    pub const SHALLOW_COPY: &str = "prims.shallow_copy";
    /// `prims.shape`
    pub const SHAPE: &str = "prims.shape";
    /// `prims.sign`
    pub const SIGN: &str = "prims.sign";
    /// `prims.signbit`
    pub const SIGNBIT: &str = "prims.signbit";
    /// `prims.sin`
    pub const SIN: &str = "prims.sin";
    /// `prims.sinh`
    pub const SINH: &str = "prims.sinh";
    /// `prims.sink`
    pub const SINK: &str = "prims.sink";
    /// `prims.slice`
    pub const SLICE: &str = "prims.slice";
    /// `prims.slice_scatter`
    pub const SLICE_SCATTER: &str = "prims.slice_scatter";
    /// `prims.sort`
    pub const SORT: &str = "prims.sort";
    /// `prims.sqrt`
    pub const SQRT: &str = "prims.sqrt";
    /// `prims.squeeze`
    pub const SQUEEZE: &str = "prims.squeeze";
    /// `prims.stride_order`
    pub const STRIDE_ORDER: &str = "prims.stride_order";
    /// `prims.sub`
    pub const SUB: &str = "prims.sub";
    /// `prims.sum`
    pub const SUM: &str = "prims.sum";
    /// `prims.take`
    pub const TAKE: &str = "prims.take";
    /// `prims.take_along_axis`
    pub const TAKE_ALONG_AXIS: &str = "prims.take_along_axis";
    /// `prims.tan`
    pub const TAN: &str = "prims.tan";
    /// `prims.tanh`
    pub const TANH: &str = "prims.tanh";
    /// `prims.tensor_from_sequence`
    pub const TENSOR_FROM_SEQUENCE: &str = "prims.tensor_from_sequence";
    /// `prims.topk`
    pub const TOPK: &str = "prims.topk";
    /// `prims.transpose`
    pub const TRANSPOSE: &str = "prims.transpose";
    /// `prims.triangular_solve`
    pub const TRIANGULAR_SOLVE: &str = "prims.triangular_solve";
    /// `prims.trunc`
    pub const TRUNC: &str = "prims.trunc";
    /// `prims.unfold`
    pub const UNFOLD: &str = "prims.unfold";
    /// `prims.uniform_philox`
    pub const UNIFORM_PHILOX: &str = "prims.uniform_philox";
    /// `prims.var`
    pub const VAR: &str = "prims.var";
    /// `prims.var_mean`
    pub const VAR_MEAN: &str = "prims.var_mean";
    /// `prims.view_as_complex`
    pub const VIEW_AS_COMPLEX: &str = "prims.view_as_complex";
    /// `prims.view_as_real`
    pub const VIEW_AS_REAL: &str = "prims.view_as_real";
    /// `prims.where`
    pub const WHERE: &str = "prims.where";
    /// `prims.while_loop`
    pub const WHILE_LOOP: &str = "prims.while_loop";
    /// `prims.while_loop_stacked`
    pub const WHILE_LOOP_STACKED: &str = "prims.while_loop_stacked";
    /// `prims.zeta`
    pub const ZETA: &str = "prims.zeta";
}

/// `torch.*`
pub mod torch {
    /// `torch.abs`
    pub const ABS: &str = "torch.abs";
    /// `torch.acos`
    pub const ACOS: &str = "torch.acos";
    /// `torch.acosh`
    pub const ACOSH: &str = "torch.acosh";
    /// `torch.adaptive_avg_pool1d`
    pub const ADAPTIVE_AVG_POOL1D: &str = "torch.adaptive_avg_pool1d";
    /// `torch.adaptive_avg_pool2d`
    pub const ADAPTIVE_AVG_POOL2D: &str = "torch.adaptive_avg_pool2d";
    /// `torch.adaptive_avg_pool2d_backward`
    pub const ADAPTIVE_AVG_POOL2D_BACKWARD: &str = "torch.adaptive_avg_pool2d_backward";
    /// `torch.adaptive_avg_pool3d`
    pub const ADAPTIVE_AVG_POOL3D: &str = "torch.adaptive_avg_pool3d";
    /// `torch.adaptive_max_pool1d`
    pub const ADAPTIVE_MAX_POOL1D: &str = "torch.adaptive_max_pool1d";
    /// `torch.adaptive_max_pool2d`
    pub const ADAPTIVE_MAX_POOL2D: &str = "torch.adaptive_max_pool2d";
    /// `torch.adaptive_max_pool3d`
    pub const ADAPTIVE_MAX_POOL3D: &str = "torch.adaptive_max_pool3d";
    /// `torch.add`
    pub const ADD: &str = "torch.add";
    /// `torch.addcdiv`
    pub const ADDCDIV: &str = "torch.addcdiv";
    /// `torch.addcmul`
    pub const ADDCMUL: &str = "torch.addcmul";
    /// `torch.addmm`
    pub const ADDMM: &str = "torch.addmm";
    /// `torch.affine_grid`
    pub const AFFINE_GRID: &str = "torch.affine_grid";
    /// `torch.alias`
    pub const ALIAS: &str = "torch.alias";
    /// `torch.all`
    pub const ALL: &str = "torch.all";
    /// `torch.amax`
    pub const AMAX: &str = "torch.amax";
    /// `torch.amin`
    pub const AMIN: &str = "torch.amin";
    /// `torch.aminmax`
    pub const AMINMAX: &str = "torch.aminmax";
    /// `torch.any`
    pub const ANY: &str = "torch.any";
    /// `torch.arange`
    pub const ARANGE: &str = "torch.arange";
    /// `torch.argmax`
    pub const ARGMAX: &str = "torch.argmax";
    /// `torch.argmin`
    pub const ARGMIN: &str = "torch.argmin";
    /// `torch.argsort`
    pub const ARGSORT: &str = "torch.argsort";
    /// `torch.as_strided`
    pub const AS_STRIDED: &str = "torch.as_strided";
    /// `torch.as_strided_scatter`
    pub const AS_STRIDED_SCATTER: &str = "torch.as_strided_scatter";
    /// `torch.asin`
    pub const ASIN: &str = "torch.asin";
    /// `torch.asinh`
    pub const ASINH: &str = "torch.asinh";
    /// `torch.assert_async`
    pub const ASSERT_ASYNC: &str = "torch.assert_async";
    /// `torch.assert_scalar`
    pub const ASSERT_SCALAR: &str = "torch.assert_scalar";
    /// `torch.assert_tensor_metadata`
    pub const ASSERT_TENSOR_METADATA: &str = "torch.assert_tensor_metadata";
    /// `torch.atan`
    pub const ATAN: &str = "torch.atan";
    /// `torch.atan2`
    pub const ATAN2: &str = "torch.atan2";
    /// `torch.atanh`
    pub const ATANH: &str = "torch.atanh";
    /// `torch.atleast_1d`
    pub const ATLEAST_1D: &str = "torch.atleast_1d";
    /// `torch.atleast_2d`
    pub const ATLEAST_2D: &str = "torch.atleast_2d";
    /// `torch.atleast_3d`
    pub const ATLEAST_3D: &str = "torch.atleast_3d";
    /// `torch.autocast`
    pub const AUTOCAST: &str = "torch.autocast";
    /// `torch.avg_pool1d`
    pub const AVG_POOL1D: &str = "torch.avg_pool1d";
    /// `torch.avg_pool2d`
    pub const AVG_POOL2D: &str = "torch.avg_pool2d";
    /// `torch.avg_pool2d_backward`
    pub const AVG_POOL2D_BACKWARD: &str = "torch.avg_pool2d_backward";
    /// `torch.avg_pool3d`
    pub const AVG_POOL3D: &str = "torch.avg_pool3d";
    /// `torch.baddbmm`
    pub const BADDBMM: &str = "torch.baddbmm";
    /// `torch.batch_norm`
    pub const BATCH_NORM: &str = "torch.batch_norm";
    /// `torch.bernoulli`
    pub const BERNOULLI: &str = "torch.bernoulli";
    /// `torch.bilinear`
    pub const BILINEAR: &str = "torch.bilinear";
    /// `torch.binary_cross_entropy`
    pub const BINARY_CROSS_ENTROPY: &str = "torch.binary_cross_entropy";
    /// `torch.binary_cross_entropy_with_logits`
    pub const BINARY_CROSS_ENTROPY_WITH_LOGITS: &str = "torch.binary_cross_entropy_with_logits";
    /// `torch.bitwise_and`
    pub const BITWISE_AND: &str = "torch.bitwise_and";
    /// `torch.bitwise_left_shift`
    pub const BITWISE_LEFT_SHIFT: &str = "torch.bitwise_left_shift";
    /// `torch.bitwise_not`
    pub const BITWISE_NOT: &str = "torch.bitwise_not";
    /// `torch.bitwise_or`
    pub const BITWISE_OR: &str = "torch.bitwise_or";
    /// `torch.bitwise_right_shift`
    pub const BITWISE_RIGHT_SHIFT: &str = "torch.bitwise_right_shift";
    /// `torch.bitwise_xor`
    pub const BITWISE_XOR: &str = "torch.bitwise_xor";
    /// `torch.bmm`
    pub const BMM: &str = "torch.bmm";
    /// `torch.broadcast_tensors`
    pub const BROADCAST_TENSORS: &str = "torch.broadcast_tensors";
    /// `torch.bucketize`
    pub const BUCKETIZE: &str = "torch.bucketize";
    /// `torch.cat`
    pub const CAT: &str = "torch.cat";
    /// `torch.cauchy`
    pub const CAUCHY: &str = "torch.cauchy";
    /// `torch.cdist`
    pub const CDIST: &str = "torch.cdist";
    /// `torch.ceil`
    pub const CEIL: &str = "torch.ceil";
    /// `torch.celu`
    pub const CELU: &str = "torch.celu";
    /// `torch.channel_shuffle`
    pub const CHANNEL_SHUFFLE: &str = "torch.channel_shuffle";
    /// `torch.checkpoint`
    pub const CHECKPOINT: &str = "torch.checkpoint";
    /// `torch.cholesky`
    pub const CHOLESKY: &str = "torch.cholesky";
    /// `torch.cholesky_ex`
    pub const CHOLESKY_EX: &str = "torch.cholesky_ex";
    /// `torch.chunk`
    pub const CHUNK: &str = "torch.chunk";
    /// `torch.clamp`
    pub const CLAMP: &str = "torch.clamp";
    /// `torch.clamp_max`
    pub const CLAMP_MAX: &str = "torch.clamp_max";
    /// `torch.clamp_min`
    pub const CLAMP_MIN: &str = "torch.clamp_min";
    /// `torch.clone`
    pub const CLONE: &str = "torch.clone";
    /// `torch.col2im`
    pub const COL2IM: &str = "torch.col2im";
    /// `torch.complex`
    pub const COMPLEX: &str = "torch.complex";
    /// `torch.cond`
    pub const COND: &str = "torch.cond";
    /// `torch.conj`
    pub const CONJ: &str = "torch.conj";
    /// `torch.constrain_range`
    pub const CONSTRAIN_RANGE: &str = "torch.constrain_range";
    /// `torch.contiguous`
    pub const CONTIGUOUS: &str = "torch.contiguous";
    /// `torch.conv1d`
    pub const CONV1D: &str = "torch.conv1d";
    /// `torch.conv2d`
    pub const CONV2D: &str = "torch.conv2d";
    /// `torch.conv3d`
    pub const CONV3D: &str = "torch.conv3d";
    /// `torch.conv_transpose1d`
    pub const CONV_TRANSPOSE1D: &str = "torch.conv_transpose1d";
    /// `torch.conv_transpose2d`
    pub const CONV_TRANSPOSE2D: &str = "torch.conv_transpose2d";
    /// `torch.conv_transpose3d`
    pub const CONV_TRANSPOSE3D: &str = "torch.conv_transpose3d";
    /// `torch.convolution`
    pub const CONVOLUTION: &str = "torch.convolution";
    /// `torch.convolution_backward`
    pub const CONVOLUTION_BACKWARD: &str = "torch.convolution_backward";
    /// `torch.copy`
    pub const COPY: &str = "torch.copy";
    /// `torch.copysign`
    pub const COPYSIGN: &str = "torch.copysign";
    /// `torch.cos`
    pub const COS: &str = "torch.cos";
    /// `torch.cosh`
    pub const COSH: &str = "torch.cosh";
    /// `torch.cosine_embedding_loss`
    pub const COSINE_EMBEDDING_LOSS: &str = "torch.cosine_embedding_loss";
    /// `torch.cosine_similarity`
    pub const COSINE_SIMILARITY: &str = "torch.cosine_similarity";
    /// `torch.count_nonzero`
    pub const COUNT_NONZERO: &str = "torch.count_nonzero";
    /// `torch.cross`
    pub const CROSS: &str = "torch.cross";
    /// `torch.cross_entropy`
    pub const CROSS_ENTROPY: &str = "torch.cross_entropy";
    /// `torch.cummax`
    pub const CUMMAX: &str = "torch.cummax";
    /// `torch.cummin`
    pub const CUMMIN: &str = "torch.cummin";
    /// `torch.cumprod`
    pub const CUMPROD: &str = "torch.cumprod";
    /// `torch.cumsum`
    pub const CUMSUM: &str = "torch.cumsum";
    /// `torch.detach`
    pub const DETACH: &str = "torch.detach";
    /// `torch.diag`
    pub const DIAG: &str = "torch.diag";
    /// `torch.diag_embed`
    pub const DIAG_EMBED: &str = "torch.diag_embed";
    /// `torch.diagonal`
    pub const DIAGONAL: &str = "torch.diagonal";
    /// `torch.diagonal_scatter`
    pub const DIAGONAL_SCATTER: &str = "torch.diagonal_scatter";
    /// `torch.diff`
    pub const DIFF: &str = "torch.diff";
    /// `torch.digamma`
    pub const DIGAMMA: &str = "torch.digamma";
    /// `torch.div`
    pub const DIV: &str = "torch.div";
    /// `torch.dot`
    pub const DOT: &str = "torch.dot";
    /// `torch.dropout`
    pub const DROPOUT: &str = "torch.dropout";
    /// `torch.einsum`
    pub const EINSUM: &str = "torch.einsum";
    /// `torch.elu`
    pub const ELU: &str = "torch.elu";
    /// `torch.embedding`
    pub const EMBEDDING: &str = "torch.embedding";
    /// `torch.embedding_bag`
    pub const EMBEDDING_BAG: &str = "torch.embedding_bag";
    /// `torch.embedding_dense_backward`
    pub const EMBEDDING_DENSE_BACKWARD: &str = "torch.embedding_dense_backward";
    /// `torch.empty`
    pub const EMPTY: &str = "torch.empty";
    /// `torch.eq`
    pub const EQ: &str = "torch.eq";
    /// `torch.erf`
    pub const ERF: &str = "torch.erf";
    /// `torch.erfc`
    pub const ERFC: &str = "torch.erfc";
    /// `torch.erfinv`
    pub const ERFINV: &str = "torch.erfinv";
    /// `torch.exp`
    pub const EXP: &str = "torch.exp";
    /// `torch.exp2`
    pub const EXP2: &str = "torch.exp2";
    /// `torch.expand`
    pub const EXPAND: &str = "torch.expand";
    /// `torch.expm1`
    pub const EXPM1: &str = "torch.expm1";
    /// `torch.exponential`
    pub const EXPONENTIAL: &str = "torch.exponential";
    /// `torch.eye`
    pub const EYE: &str = "torch.eye";
    /// `torch.fake_quantize_per_tensor`
    pub const FAKE_QUANTIZE_PER_TENSOR: &str = "torch.fake_quantize_per_tensor";
    /// `torch.fft`
    pub const FFT: &str = "torch.fft";
    /// `torch.fill`
    pub const FILL: &str = "torch.fill";
    /// `torch.flatten`
    pub const FLATTEN: &str = "torch.flatten";
    /// `torch.flip`
    pub const FLIP: &str = "torch.flip";
    /// `torch.floor`
    pub const FLOOR: &str = "torch.floor";
    /// `torch.floor_divide`
    pub const FLOOR_DIVIDE: &str = "torch.floor_divide";
    /// `torch.fmax`
    pub const FMAX: &str = "torch.fmax";
    /// `torch.fmin`
    pub const FMIN: &str = "torch.fmin";
    /// `torch.fmod`
    pub const FMOD: &str = "torch.fmod";
    /// `torch.frac`
    pub const FRAC: &str = "torch.frac";
    /// `torch.frexp`
    pub const FREXP: &str = "torch.frexp";
    /// `torch.full`
    pub const FULL: &str = "torch.full";
    /// `torch.full_like`
    pub const FULL_LIKE: &str = "torch.full_like";
    /// `torch.gather`
    pub const GATHER: &str = "torch.gather";
    /// `torch.ge`
    pub const GE: &str = "torch.ge";
    /// `torch.gelu`
    pub const GELU: &str = "torch.gelu";
    /// `torch.gelu_backward`
    pub const GELU_BACKWARD: &str = "torch.gelu_backward";
    /// `torch.geometric`
    pub const GEOMETRIC: &str = "torch.geometric";
    /// `torch.getitem`
    pub const GETITEM: &str = "torch.getitem";
    /// `torch.glu`
    pub const GLU: &str = "torch.glu";
    /// `torch.glu_backward`
    pub const GLU_BACKWARD: &str = "torch.glu_backward";
    /// `torch.grid_sample`
    pub const GRID_SAMPLE: &str = "torch.grid_sample";
    /// `torch.group_norm`
    pub const GROUP_NORM: &str = "torch.group_norm";
    /// `torch.grouped_mm`
    pub const GROUPED_MM: &str = "torch.grouped_mm";
    /// `torch.gru`
    pub const GRU: &str = "torch.gru";
    /// `torch.gru_cell`
    pub const GRU_CELL: &str = "torch.gru_cell";
    /// `torch.gt`
    pub const GT: &str = "torch.gt";
    /// `torch.hann_window`
    pub const HANN_WINDOW: &str = "torch.hann_window";
    /// `torch.hardshrink`
    pub const HARDSHRINK: &str = "torch.hardshrink";
    /// `torch.hardsigmoid`
    pub const HARDSIGMOID: &str = "torch.hardsigmoid";
    /// `torch.hardswish`
    pub const HARDSWISH: &str = "torch.hardswish";
    /// `torch.hardtanh`
    pub const HARDTANH: &str = "torch.hardtanh";
    /// `torch.hinge_embedding_loss`
    pub const HINGE_EMBEDDING_LOSS: &str = "torch.hinge_embedding_loss";
    /// `torch.hstack`
    pub const HSTACK: &str = "torch.hstack";
    /// `torch.huber_loss`
    pub const HUBER_LOSS: &str = "torch.huber_loss";
    /// `torch.hypot`
    pub const HYPOT: &str = "torch.hypot";
    /// `torch.i0`
    pub const I0: &str = "torch.i0";
    /// `torch.im2col`
    pub const IM2COL: &str = "torch.im2col";
    /// `torch.imag`
    pub const IMAG: &str = "torch.imag";
    /// `torch.index`
    pub const INDEX: &str = "torch.index";
    /// `torch.index_add`
    pub const INDEX_ADD: &str = "torch.index_add";
    /// `torch.index_copy`
    pub const INDEX_COPY: &str = "torch.index_copy";
    /// `torch.index_fill`
    pub const INDEX_FILL: &str = "torch.index_fill";
    /// `torch.index_put`
    pub const INDEX_PUT: &str = "torch.index_put";
    /// `torch.index_select`
    pub const INDEX_SELECT: &str = "torch.index_select";
    /// `torch.instance_norm`
    pub const INSTANCE_NORM: &str = "torch.instance_norm";
    /// `torch.interpolate`
    pub const INTERPOLATE: &str = "torch.interpolate";
    /// `torch.irfft`
    pub const IRFFT: &str = "torch.irfft";
    /// `torch.is_nonzero`
    pub const IS_NONZERO: &str = "torch.is_nonzero";
    /// `torch.isfinite`
    pub const ISFINITE: &str = "torch.isfinite";
    /// `torch.isinf`
    pub const ISINF: &str = "torch.isinf";
    /// `torch.isnan`
    pub const ISNAN: &str = "torch.isnan";
    /// `torch.isneginf`
    pub const ISNEGINF: &str = "torch.isneginf";
    /// `torch.isposinf`
    pub const ISPOSINF: &str = "torch.isposinf";
    /// `torch.item`
    pub const ITEM: &str = "torch.item";
    /// `torch.kl_div`
    pub const KL_DIV: &str = "torch.kl_div";
    /// `torch.kron`
    pub const KRON: &str = "torch.kron";
    /// `torch.kthvalue`
    pub const KTHVALUE: &str = "torch.kthvalue";
    /// `torch.l1_loss`
    pub const L1_LOSS: &str = "torch.l1_loss";
    /// `torch.layer_norm`
    pub const LAYER_NORM: &str = "torch.layer_norm";
    /// `torch.ldexp`
    pub const LDEXP: &str = "torch.ldexp";
    /// `torch.le`
    pub const LE: &str = "torch.le";
    /// `torch.leaky_relu`
    pub const LEAKY_RELU: &str = "torch.leaky_relu";
    /// `torch.lerp`
    pub const LERP: &str = "torch.lerp";
    /// `torch.lgamma`
    pub const LGAMMA: &str = "torch.lgamma";
    /// `torch.linear`
    pub const LINEAR: &str = "torch.linear";
    /// `torch.linspace`
    pub const LINSPACE: &str = "torch.linspace";
    /// `torch.local_response_norm`
    pub const LOCAL_RESPONSE_NORM: &str = "torch.local_response_norm";
    /// `torch.log`
    pub const LOG: &str = "torch.log";
    /// `torch.log10`
    pub const LOG10: &str = "torch.log10";
    /// `torch.log1p`
    pub const LOG1P: &str = "torch.log1p";
    /// `torch.log2`
    pub const LOG2: &str = "torch.log2";
    /// `torch.log_normal`
    pub const LOG_NORMAL: &str = "torch.log_normal";
    /// `torch.log_softmax`
    pub const LOG_SOFTMAX: &str = "torch.log_softmax";
    /// `torch.log_softmax_backward`
    pub const LOG_SOFTMAX_BACKWARD: &str = "torch.log_softmax_backward";
    /// `torch.logaddexp`
    pub const LOGADDEXP: &str = "torch.logaddexp";
    /// `torch.logcumsumexp`
    pub const LOGCUMSUMEXP: &str = "torch.logcumsumexp";
    /// `torch.logical_and`
    pub const LOGICAL_AND: &str = "torch.logical_and";
    /// `torch.logical_not`
    pub const LOGICAL_NOT: &str = "torch.logical_not";
    /// `torch.logical_or`
    pub const LOGICAL_OR: &str = "torch.logical_or";
    /// `torch.logical_xor`
    pub const LOGICAL_XOR: &str = "torch.logical_xor";
    /// `torch.logit`
    pub const LOGIT: &str = "torch.logit";
    /// `torch.logsigmoid`
    pub const LOGSIGMOID: &str = "torch.logsigmoid";
    /// `torch.logspace`
    pub const LOGSPACE: &str = "torch.logspace";
    /// `torch.logsumexp`
    pub const LOGSUMEXP: &str = "torch.logsumexp";
    /// `torch.lstm`
    pub const LSTM: &str = "torch.lstm";
    /// `torch.lstm_cell`
    pub const LSTM_CELL: &str = "torch.lstm_cell";
    /// `torch.lt`
    pub const LT: &str = "torch.lt";
    /// `torch.map`
    pub const MAP: &str = "torch.map";
    /// `torch.margin_ranking_loss`
    pub const MARGIN_RANKING_LOSS: &str = "torch.margin_ranking_loss";
    /// `torch.masked_fill`
    pub const MASKED_FILL: &str = "torch.masked_fill";
    /// `torch.masked_scatter`
    pub const MASKED_SCATTER: &str = "torch.masked_scatter";
    /// `torch.masked_select`
    pub const MASKED_SELECT: &str = "torch.masked_select";
    /// `torch.matmul`
    pub const MATMUL: &str = "torch.matmul";
    /// `torch.max_dim`
    pub const MAX_DIM: &str = "torch.max_dim";
    /// `torch.max_pool1d`
    pub const MAX_POOL1D: &str = "torch.max_pool1d";
    /// `torch.max_pool1d_with_indices`
    pub const MAX_POOL1D_WITH_INDICES: &str = "torch.max_pool1d_with_indices";
    /// `torch.max_pool2d`
    pub const MAX_POOL2D: &str = "torch.max_pool2d";
    /// `torch.max_pool2d_backward`
    pub const MAX_POOL2D_BACKWARD: &str = "torch.max_pool2d_backward";
    /// `torch.max_pool2d_with_indices`
    pub const MAX_POOL2D_WITH_INDICES: &str = "torch.max_pool2d_with_indices";
    /// `torch.max_pool3d`
    pub const MAX_POOL3D: &str = "torch.max_pool3d";
    /// `torch.max_pool3d_with_indices`
    pub const MAX_POOL3D_WITH_INDICES: &str = "torch.max_pool3d_with_indices";
    /// `torch.maximum`
    pub const MAXIMUM: &str = "torch.maximum";
    /// `torch.mean`
    pub const MEAN: &str = "torch.mean";
    /// `torch.median`
    pub const MEDIAN: &str = "torch.median";
    /// `torch.meshgrid`
    pub const MESHGRID: &str = "torch.meshgrid";
    /// `torch.min_dim`
    pub const MIN_DIM: &str = "torch.min_dim";
    /// `torch.minimum`
    pub const MINIMUM: &str = "torch.minimum";
    /// `torch.mish`
    pub const MISH: &str = "torch.mish";
    /// `torch.mm`
    pub const MM: &str = "torch.mm";
    /// `torch.mse_loss`
    pub const MSE_LOSS: &str = "torch.mse_loss";
    /// `torch.mul`
    pub const MUL: &str = "torch.mul";
    /// `torch.multi_dot`
    pub const MULTI_DOT: &str = "torch.multi_dot";
    /// `torch.multinomial`
    pub const MULTINOMIAL: &str = "torch.multinomial";
    /// `torch.mv`
    pub const MV: &str = "torch.mv";
    /// `torch.nan_to_num`
    pub const NAN_TO_NUM: &str = "torch.nan_to_num";
    /// `torch.native_batch_norm`
    pub const NATIVE_BATCH_NORM: &str = "torch.native_batch_norm";
    /// `torch.native_batch_norm_backward`
    pub const NATIVE_BATCH_NORM_BACKWARD: &str = "torch.native_batch_norm_backward";
    /// `torch.native_dropout`
    pub const NATIVE_DROPOUT: &str = "torch.native_dropout";
    /// `torch.native_dropout_backward`
    pub const NATIVE_DROPOUT_BACKWARD: &str = "torch.native_dropout_backward";
    /// `torch.native_group_norm`
    pub const NATIVE_GROUP_NORM: &str = "torch.native_group_norm";
    /// `torch.native_group_norm_backward`
    pub const NATIVE_GROUP_NORM_BACKWARD: &str = "torch.native_group_norm_backward";
    /// `torch.native_layer_norm`
    pub const NATIVE_LAYER_NORM: &str = "torch.native_layer_norm";
    /// `torch.native_layer_norm_backward`
    pub const NATIVE_LAYER_NORM_BACKWARD: &str = "torch.native_layer_norm_backward";
    /// `torch.ndtri`
    pub const NDTRI: &str = "torch.ndtri";
    /// `torch.ne`
    pub const NE: &str = "torch.ne";
    /// `torch.neg`
    pub const NEG: &str = "torch.neg";
    /// `torch.nextafter`
    pub const NEXTAFTER: &str = "torch.nextafter";
    /// `torch.nll_loss`
    pub const NLL_LOSS: &str = "torch.nll_loss";
    /// `torch.nll_loss_backward`
    pub const NLL_LOSS_BACKWARD: &str = "torch.nll_loss_backward";
    /// `torch.nonzero`
    pub const NONZERO: &str = "torch.nonzero";
    /// `torch.nonzero_tuple`
    pub const NONZERO_TUPLE: &str = "torch.nonzero_tuple";
    /// `torch.normal`
    pub const NORMAL: &str = "torch.normal";
    /// `torch.normalize`
    pub const NORMALIZE: &str = "torch.normalize";
    /// `torch.one_hot`
    pub const ONE_HOT: &str = "torch.one_hot";
    /// `torch.ones`
    pub const ONES: &str = "torch.ones";
    /// `torch.ones_like`
    pub const ONES_LIKE: &str = "torch.ones_like";
    /// `torch.outer`
    pub const OUTER: &str = "torch.outer";
    /// `torch.pad`
    pub const PAD: &str = "torch.pad";
    /// `torch.pairwise_distance`
    pub const PAIRWISE_DISTANCE: &str = "torch.pairwise_distance";
    /// `torch.pdist`
    pub const PDIST: &str = "torch.pdist";
    /// `torch.permute`
    pub const PERMUTE: &str = "torch.permute";
    /// `torch.pixel_shuffle`
    pub const PIXEL_SHUFFLE: &str = "torch.pixel_shuffle";
    /// `torch.pixel_unshuffle`
    pub const PIXEL_UNSHUFFLE: &str = "torch.pixel_unshuffle";
    /// `torch.poisson_nll_loss`
    pub const POISSON_NLL_LOSS: &str = "torch.poisson_nll_loss";
    /// `torch.polar`
    pub const POLAR: &str = "torch.polar";
    /// `torch.polygamma`
    pub const POLYGAMMA: &str = "torch.polygamma";
    /// `torch.pow`
    pub const POW: &str = "torch.pow";
    /// `torch.prelu`
    pub const PRELU: &str = "torch.prelu";
    /// `torch.prod`
    pub const PROD: &str = "torch.prod";
    /// `torch.rand`
    pub const RAND: &str = "torch.rand";
    /// `torch.randint`
    pub const RANDINT: &str = "torch.randint";
    /// `torch.randn`
    pub const RANDN: &str = "torch.randn";
    /// `torch.randperm`
    pub const RANDPERM: &str = "torch.randperm";
    /// `torch.real`
    pub const REAL: &str = "torch.real";
    /// `torch.reciprocal`
    pub const RECIPROCAL: &str = "torch.reciprocal";
    /// `torch.reflection_pad`
    pub const REFLECTION_PAD: &str = "torch.reflection_pad";
    /// `torch.relu`
    pub const RELU: &str = "torch.relu";
    /// `torch.relu6`
    pub const RELU6: &str = "torch.relu6";
    /// `torch.relu_backward`
    pub const RELU_BACKWARD: &str = "torch.relu_backward";
    /// `torch.remainder`
    pub const REMAINDER: &str = "torch.remainder";
    /// `torch.renorm`
    pub const RENORM: &str = "torch.renorm";
    /// `torch.repeat`
    pub const REPEAT: &str = "torch.repeat";
    /// `torch.repeat_interleave`
    pub const REPEAT_INTERLEAVE: &str = "torch.repeat_interleave";
    /// `torch.replication_pad`
    pub const REPLICATION_PAD: &str = "torch.replication_pad";
    /// `torch.reshape`
    pub const RESHAPE: &str = "torch.reshape";
    /// `torch.resize`
    pub const RESIZE: &str = "torch.resize";
    /// `torch.rfft`
    pub const RFFT: &str = "torch.rfft";
    /// `torch.rms_norm`
    pub const RMS_NORM: &str = "torch.rms_norm";
    /// `torch.rms_norm_backward`
    pub const RMS_NORM_BACKWARD: &str = "torch.rms_norm_backward";
    /// `torch.rnn`
    pub const RNN: &str = "torch.rnn";
    /// `torch.rnn_cell`
    pub const RNN_CELL: &str = "torch.rnn_cell";
    /// `torch.roll`
    pub const ROLL: &str = "torch.roll";
    /// `torch.rot90`
    pub const ROT90: &str = "torch.rot90";
    /// `torch.round`
    pub const ROUND: &str = "torch.round";
    /// `torch.rrelu`
    pub const RRELU: &str = "torch.rrelu";
    /// `torch.rsqrt`
    pub const RSQRT: &str = "torch.rsqrt";
    /// `torch.rsub`
    pub const RSUB: &str = "torch.rsub";
    /// `torch.safe_softmax`
    pub const SAFE_SOFTMAX: &str = "torch.safe_softmax";
    /// `torch.scaled_dot_product_attention`
    pub const SCALED_DOT_PRODUCT_ATTENTION: &str = "torch.scaled_dot_product_attention";
    /// `torch.scaled_dot_product_attention_backward`
    pub const SCALED_DOT_PRODUCT_ATTENTION_BACKWARD: &str = "torch.scaled_dot_product_attention_backward";
    /// `torch.scaled_dot_product_attention_lse`
    pub const SCALED_DOT_PRODUCT_ATTENTION_LSE: &str = "torch.scaled_dot_product_attention_lse";
    /// `torch.scan`
    pub const SCAN: &str = "torch.scan";
    /// `torch.scatter`
    pub const SCATTER: &str = "torch.scatter";
    /// `torch.scatter_add`
    pub const SCATTER_ADD: &str = "torch.scatter_add";
    /// `torch.scatter_reduce`
    pub const SCATTER_REDUCE: &str = "torch.scatter_reduce";
    /// `torch.searchsorted`
    pub const SEARCHSORTED: &str = "torch.searchsorted";
    /// `torch.select`
    pub const SELECT: &str = "torch.select";
    /// `torch.select_scatter`
    pub const SELECT_SCATTER: &str = "torch.select_scatter";
    /// `torch.selu`
    pub const SELU: &str = "torch.selu";
    /// `torch.set_grad_enabled`
    pub const SET_GRAD_ENABLED: &str = "torch.set_grad_enabled";
    /// `torch.setitem`
    pub const SETITEM: &str = "torch.setitem";
    /// `torch.sigmoid`
    pub const SIGMOID: &str = "torch.sigmoid";
    /// `torch.sigmoid_backward`
    pub const SIGMOID_BACKWARD: &str = "torch.sigmoid_backward";
    /// `torch.sign`
    pub const SIGN: &str = "torch.sign";
    /// `torch.signbit`
    pub const SIGNBIT: &str = "torch.signbit";
    /// `torch.silu`
    pub const SILU: &str = "torch.silu";
    /// `torch.silu_backward`
    pub const SILU_BACKWARD: &str = "torch.silu_backward";
    /// `torch.sin`
    pub const SIN: &str = "torch.sin";
    /// `torch.sinh`
    pub const SINH: &str = "torch.sinh";
    /// `torch.slice`
    pub const SLICE: &str = "torch.slice";
    /// `torch.slice_scatter`
    pub const SLICE_SCATTER: &str = "torch.slice_scatter";
    /// `torch.smooth_l1_loss`
    pub const SMOOTH_L1_LOSS: &str = "torch.smooth_l1_loss";
    /// `torch.soft_margin_loss`
    pub const SOFT_MARGIN_LOSS: &str = "torch.soft_margin_loss";
    /// `torch.softmax`
    pub const SOFTMAX: &str = "torch.softmax";
    /// `torch.softmax_backward`
    pub const SOFTMAX_BACKWARD: &str = "torch.softmax_backward";
    /// `torch.softmin`
    pub const SOFTMIN: &str = "torch.softmin";
    /// `torch.softplus`
    pub const SOFTPLUS: &str = "torch.softplus";
    /// `torch.softshrink`
    pub const SOFTSHRINK: &str = "torch.softshrink";
    /// `torch.softsign`
    pub const SOFTSIGN: &str = "torch.softsign";
    /// `torch.solve_triangular`
    pub const SOLVE_TRIANGULAR: &str = "torch.solve_triangular";
    /// `torch.sort`
    pub const SORT: &str = "torch.sort";
    /// `torch.split`
    pub const SPLIT: &str = "torch.split";
    /// `torch.sqrt`
    pub const SQRT: &str = "torch.sqrt";
    /// `torch.square`
    pub const SQUARE: &str = "torch.square";
    /// `torch.squeeze`
    pub const SQUEEZE: &str = "torch.squeeze";
    /// `torch.stack`
    pub const STACK: &str = "torch.stack";
    /// `torch.std`
    pub const STD: &str = "torch.std";
    /// `torch.std_mean`
    pub const STD_MEAN: &str = "torch.std_mean";
    /// `torch.stft`
    pub const STFT: &str = "torch.stft";
    /// `torch.sub`
    pub const SUB: &str = "torch.sub";
    /// `torch.sum`
    pub const SUM: &str = "torch.sum";
    /// `torch.sym_is_contiguous`
    pub const SYM_IS_CONTIGUOUS: &str = "torch.sym_is_contiguous";
    /// `torch.sym_numel`
    pub const SYM_NUMEL: &str = "torch.sym_numel";
    /// `torch.sym_size`
    pub const SYM_SIZE: &str = "torch.sym_size";
    /// `torch.sym_storage_offset`
    pub const SYM_STORAGE_OFFSET: &str = "torch.sym_storage_offset";
    /// `torch.sym_stride`
    pub const SYM_STRIDE: &str = "torch.sym_stride";
    /// `torch.t`
    pub const T: &str = "torch.t";
    /// `torch.take`
    pub const TAKE: &str = "torch.take";
    /// `torch.take_along_dim`
    pub const TAKE_ALONG_DIM: &str = "torch.take_along_dim";
    /// `torch.tan`
    pub const TAN: &str = "torch.tan";
    /// `torch.tanh`
    pub const TANH: &str = "torch.tanh";
    /// `torch.tanh_backward`
    pub const TANH_BACKWARD: &str = "torch.tanh_backward";
    /// `torch.tanhshrink`
    pub const TANHSHRINK: &str = "torch.tanhshrink";
    /// `torch.tensor`
    pub const TENSOR: &str = "torch.tensor";
    /// `torch.tensor_split`
    pub const TENSOR_SPLIT: &str = "torch.tensor_split";
    /// `torch.tensordot`
    pub const TENSORDOT: &str = "torch.tensordot";
    /// `torch.threshold`
    pub const THRESHOLD: &str = "torch.threshold";
    /// `torch.to`
    pub const TO: &str = "torch.to";
    /// `torch.topk`
    pub const TOPK: &str = "torch.topk";
    /// `torch.trace`
    pub const TRACE: &str = "torch.trace";
    /// `torch.transpose`
    pub const TRANSPOSE: &str = "torch.transpose";
    /// `torch.tril`
    pub const TRIL: &str = "torch.tril";
    /// `torch.tril_indices`
    pub const TRIL_INDICES: &str = "torch.tril_indices";
    /// `torch.triplet_margin_loss`
    pub const TRIPLET_MARGIN_LOSS: &str = "torch.triplet_margin_loss";
    /// `torch.triu`
    pub const TRIU: &str = "torch.triu";
    /// `torch.triu_indices`
    pub const TRIU_INDICES: &str = "torch.triu_indices";
    /// `torch.true_divide`
    pub const TRUE_DIVIDE: &str = "torch.true_divide";
    /// `torch.trunc`
    pub const TRUNC: &str = "torch.trunc";
    /// `torch.unbind`
    pub const UNBIND: &str = "torch.unbind";
    /// `torch.unflatten`
    pub const UNFLATTEN: &str = "torch.unflatten";
    /// `torch.unfold`
    pub const UNFOLD: &str = "torch.unfold";
    /// `torch.unsqueeze`
    pub const UNSQUEEZE: &str = "torch.unsqueeze";
    /// `torch.upsample_aa`
    pub const UPSAMPLE_AA: &str = "torch.upsample_aa";
    /// `torch.upsample_bicubic2d`
    pub const UPSAMPLE_BICUBIC2D: &str = "torch.upsample_bicubic2d";
    /// `torch.upsample_linear`
    pub const UPSAMPLE_LINEAR: &str = "torch.upsample_linear";
    /// `torch.upsample_nearest`
    pub const UPSAMPLE_NEAREST: &str = "torch.upsample_nearest";
    /// `torch.upsample_nearest_exact`
    pub const UPSAMPLE_NEAREST_EXACT: &str = "torch.upsample_nearest_exact";
    /// `torch.var`
    pub const VAR: &str = "torch.var";
    /// `torch.var_mean`
    pub const VAR_MEAN: &str = "torch.var_mean";
    /// `torch.vector_norm`
    pub const VECTOR_NORM: &str = "torch.vector_norm";
    /// `torch.view_as_complex`
    pub const VIEW_AS_COMPLEX: &str = "torch.view_as_complex";
    /// `torch.view_as_real`
    pub const VIEW_AS_REAL: &str = "torch.view_as_real";
    /// `torch.view_dtype`
    pub const VIEW_DTYPE: &str = "torch.view_dtype";
    /// `torch.vstack`
    pub const VSTACK: &str = "torch.vstack";
    /// `torch.weight_norm`
    pub const WEIGHT_NORM: &str = "torch.weight_norm";
    /// `torch.where`
    pub const WHERE: &str = "torch.where";
    /// `torch.while_loop`
    pub const WHILE_LOOP: &str = "torch.while_loop";
    /// `torch.with_effects`
    pub const WITH_EFFECTS: &str = "torch.with_effects";
    /// `torch.xlogy`
    pub const XLOGY: &str = "torch.xlogy";
    /// `torch.zeros`
    pub const ZEROS: &str = "torch.zeros";
    /// `torch.zeros_like`
    pub const ZEROS_LIKE: &str = "torch.zeros_like";
    /// `torch.zeta`
    pub const ZETA: &str = "torch.zeta";
}
