//! `thunderhead config`: whether the config is right, and what it means.

use super::args::{ConfigArgs, ConfigCommand};
use super::failure::Failure;
use super::program::look_at_config;
use super::render::Screen;
use super::render::units::count;

pub fn run(command: &ConfigCommand, screen: &Screen) -> Result<(), Failure> {
    match command {
        ConfigCommand::Check { config } => check(config, screen),
        ConfigCommand::Show { config, json } => show(config, *json, screen),
    }
}

/// All faults go to stderr with exit code 3; what is said of a good config is data.
fn check(config: &ConfigArgs, screen: &Screen) -> Result<(), Failure> {
    let (resolved, notices) = look_at_config(config, screen)?;
    let order: Vec<&str> = resolved.order.iter().map(|name| name.value.as_str()).collect();
    let order = if order.is_empty() { "nobody".to_owned() } else { order.join(", ") };
    let warnings =
        if notices.is_empty() { String::new() } else { format!(", {}", count(notices.len(), "warning")) };
    let last_resort = resolved.last_resort.value.as_str();
    screen.data(&format!("{}: good{warnings}; asked: {order}; last resort: {last_resort}\n", resolved.name))
}

fn show(config: &ConfigArgs, json: bool, screen: &Screen) -> Result<(), Failure> {
    let (resolved, _) = look_at_config(config, screen)?;
    if json {
        let value = serde_json::to_value(&resolved).expect("a config is plain data with string keys");
        return screen.data(&format!("{value:#}\n"));
    }
    screen.data(&resolved.to_string())
}
