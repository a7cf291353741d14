//! Scaled dot product attention. Where dropout would draw, `random` refuses before a recipe is made.

use thunderhead_aten::flash;
use thunderhead_aten::recipe::{Row, call, with};

/// What this family runs.
pub static ROWS: &[Row] = &[
    call(
        "torch.scaled_dot_product_attention",
        "scaled_dot_product_attention",
        "q k v mask dropout_p is_causal scale enable_gqa",
    ),
    with("torch.scaled_dot_product_attention_lse", flash::forward),
    with("torch.scaled_dot_product_attention_backward", flash::backward),
];
