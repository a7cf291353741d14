//! `thunderhead ops`: the op table, for people and for what is derived from it.

use serde_json::json;
use thunderhead::ops::{Level, Op, Traits, table};

use super::args::OpsArgs;
use super::failure::Failure;
use super::render::Screen;
use super::render::table::Table;

/// Facts that the list shows, by the word for each.
const TRAITS: [(&str, Traits); 9] = [
    ("pointwise", Traits::POINTWISE),
    ("view", Traits::VIEW),
    ("commutative", Traits::COMMUTATIVE),
    ("cheap", Traits::CHEAP),
    ("effect", Traits::EFFECT),
    ("host", Traits::HOST),
    ("data_sized", Traits::DATA_SIZED),
    ("random", Traits::RANDOM),
    ("accumulates", Traits::ACCUMULATES),
];

pub fn run(args: &OpsArgs, screen: &Screen) -> Result<(), Failure> {
    let mut ops: Vec<&Op> = table().to_vec();
    ops.sort_by_key(|op| op.name);
    let text = match (args.json, args.md) {
        (true, _) => json_text(&ops),
        (_, true) => markdown(&ops),
        _ => words(&ops, screen),
    };
    screen.data(&text)
}

fn level(op: &Op) -> &'static str {
    match op.level {
        Level::Prim => "prim",
        Level::Composite(_) => "composite",
    }
}

fn traits(op: &Op) -> Vec<&'static str> {
    TRAITS.iter().filter(|(_, fact)| op.is(*fact)).map(|(word, _)| *word).collect()
}

fn overloads(op: &Op) -> Vec<&'static str> {
    op.aten.iter().flat_map(|aten| aten.overloads.iter().copied()).collect()
}

fn json_text(ops: &[&Op]) -> String {
    let list: Vec<_> = ops
        .iter()
        .map(|op| {
            json!({
                "name": op.name,
                "level": level(op),
                "schema": op.schema,
                "traits": traits(op),
                "aten": overloads(op),
                "doc": op.doc,
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(list))
}

fn markdown(ops: &[&Op]) -> String {
    let mut text = String::from(
        "# Ops\n\nWritten by `cargo xtask codegen` from the op table; not edited by hand. A composite that no executor takes is taken\n\
         apart into what it is made of; a prim needs somebody who takes it.\n\n\
         | Op | Level | Facts | From ATen | Meaning |\n|---|---|---|---|---|\n",
    );
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ");
    for op in ops {
        let aten: Vec<String> = overloads(op).iter().map(|overload| format!("`{overload}`")).collect();
        text.push_str(&format!(
            "| `{}{}` | {} | {} | {} | {} |\n",
            op.name,
            cell(op.schema),
            level(op),
            traits(op).join(", "),
            aten.join(" "),
            cell(op.doc)
        ));
    }
    text
}

fn words(ops: &[&Op], screen: &Screen) -> String {
    let mut table = Table::new(&["OP", "LEVEL", "FACTS", "SCHEMA"]);
    for op in ops {
        table.row([op.name.to_owned(), level(op).to_owned(), traits(op).join(" "), op.schema.to_owned()]);
    }
    table.render(screen)
}
