//! `thunderhead run`: the model once, on inputs given or filled; outputs printed, written, compared; state carried.

use thunderhead::compare::Tolerance;
use thunderhead::tensor_files::{read_tensors, write_tensors};

use super::args::RunArgs;
use super::failure::Failure;
use super::outputs::{Compared, Outputs, check_folders};
use super::program::{Opened, is_input_name};
use super::render::Screen;
use super::render::progress::timed;

pub fn run(args: &RunArgs, screen: &Screen) -> Result<(), Failure> {
    check_folders([args.output.as_ref(), args.state_out.as_ref()])?;
    let opened = Opened::new(&args.model, &args.inputs, screen)?;
    if let Some(path) = &args.state {
        let mut state = read_tensors(path)?;
        // Written inputs stand in the file as they were afterwards; the next run gets its own.
        state.retain(|name, _| !is_input_name(name));
        opened.session.set_state(&state)?;
    }
    let (_, compile) = timed("compiling", screen, || Ok(opened.compiled()?))?;
    let run = || Ok(opened.session.run_written(&opened.inputs)?);
    let ((values, written), run) = timed("running", screen, run)?;

    let outputs = Outputs::new(values);
    if let Some(path) = &args.output {
        outputs.write(path, screen)?;
    }
    if let Some(path) = &args.state_out {
        let mut state: Vec<_> = opened.session.state()?.into_iter().collect();
        state.extend(written.into_iter().map(|(name, tensor)| (name.to_string(), tensor)));
        write_tensors(path, &state).map_err(|error| Failure::write(path, &error))?;
    }
    let tolerance = Tolerance { rtol: args.rtol, atol: args.atol };
    let compared: Vec<Compared> = match &args.expect {
        Some(path) => outputs.compare(path, tolerance, screen)?,
        None => Vec::new(),
    };
    let summary = opened.summary(compile, run)?;
    outputs.report(args.json, args.expect.as_deref(), &compared, &summary, screen)
}
