//! A loaded executor: the rooms' ports, implemented by calls into its plugin.

use super::desc::{ConstantOf, Desc};
use super::error::LoadError;
use super::guard;
use super::instance::Instance;
use super::kernel::{Expected, LoadedKernel};
use super::load::Recipe;
use super::region::{self, LoweringCall, RegionText};
use super::services;
use crate::claim::{Claimant, LayoutNeed, OpSpec, Refusal, StaticClaim, codes};
use crate::ir::Device;
use crate::lower::{Lowering, RegionSpec};
use crate::plan::{Constant, Fault, FaultKind, Kernel, KernelMaker};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use thunderhead_abi::basic::{Array, status};
use thunderhead_abi::kernel_1;
use thunderhead_manifest::{ExecutorDecl, Layout, Manifest, Operand};

/// An executor that was loaded.
pub struct LoadedExecutor {
    path: PathBuf,
    manifest: Arc<Manifest>,
    /// Index of its declaration in the manifest.
    declared: usize,
    threads: usize,
    /// Exchanged only where `recipe` says how to make it anew.
    instance: RwLock<Arc<Instance>>,
    /// For a linked plugin, which is made anew after a panic.
    recipe: Option<Recipe>,
    /// How a check failed, until somebody asks.
    check_fault: Mutex<Option<Fault>>,
    /// Whether there is one: looking costs nothing where there is none.
    check_failed: AtomicBool,
}

impl LoadedExecutor {
    pub(super) fn new(
        path: PathBuf,
        manifest: Arc<Manifest>,
        declared: usize,
        threads: usize,
        instance: Instance,
        recipe: Option<Recipe>,
    ) -> LoadedExecutor {
        let instance = RwLock::new(Arc::new(instance));
        let (check_fault, check_failed) = (Mutex::new(None), AtomicBool::new(false));
        LoadedExecutor { path, manifest, declared, threads, instance, recipe, check_fault, check_failed }
    }

    /// The file that it comes from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The manifest of its plugin.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its part of the manifest.
    pub fn declaration(&self) -> &ExecutorDecl {
        &self.manifest.executors[self.declared]
    }

    /// Whether it panicked and is called no more. Never true of a linked plugin for long: that is made anew.
    pub fn is_quarantined(&self) -> bool {
        self.instance().is_quarantined()
    }

    /// The last failure (a panic, a wrong answer) of its `check`, once. The check itself counts as a refusal.
    pub fn take_check_fault(&self) -> Option<Fault> {
        if !self.check_failed.swap(false, Ordering::AcqRel) {
            return None;
        }
        self.check_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    fn note_check_fault(&self, fault: Fault) {
        *self.check_fault.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(fault);
        self.check_failed.store(true, Ordering::Release);
    }

    /// Whether its manifest says that it wants to propose regions.
    pub fn proposes(&self) -> bool {
        let named = self.manifest.needs.iter().chain(&self.manifest.uses);
        named.into_iter().any(|id| id.to_string() == thunderhead_abi::region_1::ID)
    }

    /// Its own quick check of what it needs. The error is in its words.
    pub fn selftest(&self) -> Result<(), String> {
        let instance = self.instance();
        let Some(table) = instance.tables.selftest else { return Ok(()) };
        let handle = instance.handle;
        // SAFETY: alive; serialised.
        let answer = instance.serial_call(|| unsafe { (table.run)(handle) });
        answer.map_err(|(kind, message)| format!("{}: {message}", guard::kind_name(kind)))
    }

    /// Tells it that the end is near: its threads end, it writes what it wants to keep.
    pub fn quiesce(&self) {
        let instance = self.instance();
        if let Some(table) = instance.tables.lifecycle {
            let handle = instance.handle;
            // SAFETY: alive; serialised.
            if let Err((kind, message)) = instance.serial_call(|| unsafe { (table.quiesce)(handle) }) {
                log::warn!(target: "thunderhead", "{} did not end well ({}): {message}", self.name(), guard::kind_name(kind));
            }
        }
    }

    /// The instance; a linked plugin that panicked is made anew.
    fn instance(&self) -> Arc<Instance> {
        let current = self.instance.read().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
        let Some(recipe) = self.recipe.as_ref().filter(|_| current.is_quarantined()) else { return current };
        let mut slot = self.instance.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        if slot.is_quarantined()
            && let Ok(anew) = recipe.make()
        {
            *slot = Arc::new(anew);
        }
        slot.clone()
    }

    fn make_kernel(&self, op: &OpSpec, constant: ConstantOf<'_>) -> Result<LoadedKernel, Fault> {
        let instance = self.instance();
        if instance.is_quarantined() {
            return Err(instance.quarantine_fault(&op.op, &op.origin));
        }
        let desc = Desc::new(op, Some(constant));
        let raw_desc = desc.raw();
        let mut info = kernel_1::KernelInfo {
            size: std::mem::size_of::<kernel_1::KernelInfo>() as u64,
            kernel: std::ptr::null_mut(),
            flags: 0,
            in_place: Array::EMPTY,
            output_strides: Array::EMPTY,
        };
        services::forget_said();
        // SAFETY: the executor is alive; the description is readable and `info` writable during the call.
        let answer = unsafe { (instance.tables.kernel.make)(instance.handle, &raw_desc, &mut info) };
        let fault =
            |(kind, message): (FaultKind, String)| instance.who.fault(&op.op, &op.origin, kind, message);
        instance.judge(answer).map_err(fault)?;
        let inputs: Vec<Expected> = op.inputs.iter().map(Expected::of).collect();
        let outputs: Vec<Expected> = op.outputs.iter().map(Expected::of).collect();
        // SAFETY: just filled in; the kernel is alive.
        let checked = unsafe { guard::kernel_info(&info, &inputs, &outputs) };
        let checked = checked.map_err(|why| fault((FaultKind::BadAnswer, why)))?;
        let mut kernel = LoadedKernel::new(instance.clone(), op, info.kernel, checked, outputs);
        kernel.ask_workspace(self.threads)?;
        Ok(kernel)
    }
}

impl Claimant for LoadedExecutor {
    fn name(&self) -> &str {
        &self.declaration().name
    }

    fn limits(&self, op: &OpSpec) -> StaticClaim {
        if self.is_quarantined() {
            let sentence = "it panicked and is quarantined";
            return StaticClaim::Refused(Refusal::new(self.name(), codes::PLUGIN_PANICKED, sentence));
        }
        let devices: Vec<String> = op.inputs.iter().map(|input| device_name(&input.device)).collect();
        let operands = op.inputs.iter().zip(&devices).map(|(input, device)| Operand {
            dtype: input.dtype.name(),
            device,
            rank: input.dims.len() as u32,
        });
        match self.declaration().limits(&op.op, operands) {
            Ok(claim) => StaticClaim::Within { check: claim.check, layout: layout_need(claim.layout) },
            Err(refusal) => {
                StaticClaim::Refused(Refusal::new(self.name(), refusal.code(), refusal.to_string()))
            }
        }
    }

    fn check(&self, op: &OpSpec) -> Result<(), Refusal> {
        let instance = self.instance();
        if instance.is_quarantined() {
            let sentence = "it panicked and is quarantined";
            return Err(Refusal::new(self.name(), codes::PLUGIN_PANICKED, sentence));
        }
        let Some(table) = instance.tables.claim else { return Ok(()) };
        let desc = Desc::new(op, None);
        services::forget_said();
        // SAFETY: the executor is alive; the description is readable during the call.
        let answer = unsafe { (table.check_op)(instance.handle, &desc.raw()) };
        if answer == status::OK {
            return Ok(());
        }
        Err(match guard::refused(&instance.who, answer) {
            Ok(refusal) => refusal,
            Err((kind, message)) => {
                instance.note(kind);
                let refusal = guard::failed_check(&instance.who, kind, &message);
                self.note_check_fault(instance.who.fault(&op.op, &op.origin, kind, message));
                refusal
            }
        })
    }
}

impl KernelMaker for LoadedExecutor {
    fn make(
        &self,
        op: &OpSpec,
        constant: &dyn Fn(u64) -> Option<Constant>,
    ) -> Result<Arc<dyn Kernel>, Fault> {
        Ok(Arc::new(self.make_kernel(op, constant)?))
    }

    fn lower(
        &self,
        lowering: &mut Lowering<'_, '_, Arc<dyn Kernel>>,
        constant: &dyn Fn(u64) -> Option<Constant>,
    ) -> Result<(), Fault> {
        let instance = self.instance();
        if instance.is_quarantined() {
            let region = lowering.region();
            let found = (FaultKind::Panic, "the executor panicked and is quarantined".to_owned());
            return Err(region::fault_of(&instance, region, found));
        }
        let Some(table) = instance.tables.compile else {
            let found = (FaultKind::Unsupported, "it has no compile/1".to_owned());
            return Err(region::fault_of(&instance, lowering.region(), found));
        };
        let text = RegionText::new(lowering.region(), Some(constant));
        let raw = text.raw();
        let call = LoweringCall::new(lowering, instance.clone(), constant, self.threads);
        services::forget_said();
        // SAFETY: the executor is alive; the region is readable and the handle good during the call.
        let answer = unsafe { (table.lower)(instance.handle, &raw, call.handle()) };
        let fault = call.into_fault();
        let judged = instance.judge(answer);
        match (fault, judged) {
            (_, Err(found @ (FaultKind::Panic, _))) => {
                Err(region::fault_of(&instance, lowering.region(), found))
            }
            (Some(fault), _) => Err(fault),
            (None, Err(found)) => Err(region::fault_of(&instance, lowering.region(), found)),
            (None, Ok(())) => Ok(()),
        }
    }

    fn propose(&self, region: &RegionSpec) -> Result<Option<Vec<Vec<u32>>>, Fault> {
        let instance = self.instance();
        if instance.is_quarantined() {
            let found = (FaultKind::Panic, "the executor panicked and is quarantined".to_owned());
            return Err(region::fault_of(&instance, region, found));
        }
        let Some(table) = instance.tables.region else { return Ok(None) };
        let text = RegionText::new(region, None);
        let raw = text.raw();
        let mut lists: Vec<Vec<u32>> = Vec::new();
        services::forget_said();
        // SAFETY: the executor is alive; the region is readable and the list writable during the call.
        let answer = unsafe {
            (table.propose)(instance.handle, &raw, region::take_proposal(), (&raw mut lists).cast())
        };
        match instance.judge(answer) {
            Ok(()) => Ok(Some(lists)),
            Err((FaultKind::Unsupported, _)) => Ok(None),
            Err(found) => Err(region::fault_of(&instance, region, found)),
        }
    }

    fn fault(&self, op: &str, origin: &str, kind: FaultKind, message: String) -> Fault {
        self.instance().who.fault(op, origin, kind, message)
    }
}

fn device_name(device: &Device) -> String {
    match device {
        Device::Cpu => "cpu".to_owned(),
        other => other.to_string(),
    }
}

fn layout_need(layout: Layout) -> LayoutNeed {
    match layout {
        Layout::Contiguous => LayoutNeed::Contiguous,
        Layout::Rows => LayoutNeed::Rows,
        Layout::Any => LayoutNeed::Any,
    }
}

impl Recipe {
    /// Makes the executor anew.
    pub(super) fn make(&self) -> Result<Instance, LoadError> {
        Instance::create(&self.path, self.tables, self.who.clone(), self.context)
    }
}

impl std::fmt::Debug for LoadedExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedExecutor({} of {})", self.name(), self.path.display())
    }
}
