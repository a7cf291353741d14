//! The host: a config, the executors that it loaded, and threads. Wiring of `config`, `loader` and `run`; no logic of
//! its own but policies: who is required, who is left out, who is banned after a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use thunderhead_manifest::{Kind, Manifest};

use crate::claim::{Fusion, Refusal, codes};
use crate::config::{
    self, Chain, ConfigErrors, LastResort, Notice, OnError, Overlay, Resolved, Start, Surroundings,
};
use crate::error::{Error, LoadErrors};
use crate::loader::{self, Found, Inspection, LibraryPath, Liked, LoadError, LoadedExecutor, Place};
use crate::plan::KernelMaker;
use crate::program::Program;
use crate::run::{Executors, OrderEntry, SessionOptions};
use crate::session::{Session, StateViews};
use crate::threads::Pool;

/// What a host is opened with.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Which config.
    pub start: Start,
    /// What is changed of it.
    pub overlay: Overlay,
    /// The machine.
    pub around: Surroundings,
}

impl Default for HostOptions {
    /// The config that `THUNDERHEAD_CONFIG`, the user's folder or the preset `default` gives, on this machine.
    fn default() -> HostOptions {
        HostOptions { start: Start::Search, overlay: Overlay::default(), around: Surroundings::of_process() }
    }
}

/// A config and the manifests that were found, before anything is loaded: no plugin code has run.
#[derive(Debug)]
pub struct Look {
    /// The config's files.
    pub chain: Chain,
    /// The plugins found, the linked-in ones among them.
    pub found: Found,
    /// What the config means, and what was noticed; or everything that is wrong with it.
    pub outcome: Result<(Resolved, Vec<Notice>), ConfigErrors>,
    around: Surroundings,
}

/// Reads the config and all manifests.
pub fn look(options: &HostOptions) -> Result<Look, Error> {
    let around = options.around.clone();
    let chain = Chain::load(&options.start, &around, &config::read_text);
    let mut found = loader::find(&loader::places(&chain.plugin_paths(), &around));
    found.add_linked(thunderhead_reference::MANIFEST)?;
    let ops: Vec<&str> = crate::ops::table::table().iter().map(|op| op.name).collect();
    found.warn_of_unknown_ops(&ops);
    let outcome = chain.resolve(&options.overlay, &found.manifests(), &around, &ops);
    let outcome = outcome.map_err(|errors| with_refused_files(errors, &found));
    Ok(Look { chain, found, outcome, around })
}

/// An executor that nobody brings may be that of a file which was refused: then that is said with it.
fn with_refused_files(mut errors: ConfigErrors, found: &Found) -> ConfigErrors {
    let refused: Vec<String> = found
        .skipped
        .iter()
        .filter(|skipped| skipped.expected && !skipped.named)
        .map(|skipped| format!("`{}` was refused: {}", skipped.path.display(), one_line(&skipped.error)))
        .collect();
    for problem in &mut errors.problems {
        if let config::ConfigFault::UnknownExecutor { advice, .. } = &mut *problem.what
            && !refused.is_empty()
        {
            *advice = format!("{}; {advice}", refused.join("; "));
        }
    }
    errors
}

fn one_line(error: &LoadError) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// What the executors of a plugin claim because they are like others, as things lie here: with the plugins that lie in its
/// folder and in the usual places, and the linked-in ones.
pub fn liked(inspection: &Inspection, around: &Surroundings) -> Result<Vec<Liked>, Error> {
    let Some(manifest) = &inspection.manifest else { return Ok(Vec::new()) };
    let folder = inspection.path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    let mut places = vec![Place { path: folder, origin: "beside it".to_owned(), must_exist: false }];
    places.extend(loader::places(&[], around));
    let mut found = loader::find(&places);
    found.add_linked(thunderhead_reference::MANIFEST)?;
    Ok(loader::liked(manifest, &found.manifests()))
}

impl Look {
    /// The config, or why it cannot be used. Files that the config names itself and that are no usable plugins are said
    /// alone: what they would have brought is unknown because of them.
    pub fn resolved(&self) -> Result<&(Resolved, Vec<Notice>), Error> {
        let config = match &self.outcome {
            Ok(good) => return Ok(good),
            Err(errors) => errors,
        };
        let unknown =
            |problem: &config::Problem| matches!(*problem.what, config::ConfigFault::UnknownExecutor { .. });
        let errors: Vec<LoadError> = self
            .found
            .skipped
            .iter()
            .filter(|skipped| skipped.named)
            .map(|skipped| skipped.error.clone())
            .collect();
        if errors.is_empty() || !config.problems.iter().all(unknown) {
            return Err(config.clone().into());
        }
        Err(LoadErrors { errors }.into())
    }

    /// Where declared libraries are looked for, as far as the config is known.
    pub fn libraries(&self) -> Vec<LibraryPath> {
        match &self.outcome {
            Ok((resolved, _)) => loader::library_paths(resolved, &self.found.manifests(), &self.around),
            Err(_) => Vec::new(),
        }
    }

    /// Loads the executors that the config needs.
    pub fn load(self) -> Result<Host, Error> {
        self.resolved()?;
        let libraries = self.libraries();
        let Look { found, outcome, around, .. } = self;
        let (resolved, notices) = outcome?;
        let threads = match resolved.threads.value {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n as usize,
        };
        let manifests = found.manifests();
        let wanted = resolved.loaded(&manifests);
        let linked = vec![("reference".to_owned(), thunderhead_reference::entry())];
        let request = loader::request(&resolved, &wanted, &manifests, &around, threads, linked);
        let mut executors = BTreeMap::new();
        let mut refused = Vec::new();
        for attempt in loader::load(&found, &request) {
            match attempt.result {
                Ok(executor) => {
                    executors.insert(attempt.name, executor);
                }
                Err(error) => {
                    let required = resolved.is_required(&attempt.name);
                    refused.push(Refused { name: attempt.name, error, required });
                }
            }
        }
        let errors: Vec<LoadError> = refused.iter().filter(|r| r.required).map(|r| r.error.clone()).collect();
        if !errors.is_empty() {
            return Err(LoadErrors { errors }.into());
        }
        let pool = Arc::new(Pool::new(threads));
        Ok(Host {
            resolved: Arc::new(resolved),
            notices,
            found,
            executors,
            refused,
            libraries,
            threads,
            pool,
        })
    }
}

/// An executor that the config wants and that cannot be had.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The executor.
    pub name: String,
    /// Why.
    pub error: LoadError,
    /// Whether that stops the host.
    pub required: bool,
}

/// A config with its executors loaded, ready to compile programs. Executors are never unloaded.
pub struct Host {
    resolved: Arc<Resolved>,
    notices: Vec<Notice>,
    found: Found,
    executors: BTreeMap<String, Arc<LoadedExecutor>>,
    refused: Vec<Refused>,
    libraries: Vec<LibraryPath>,
    threads: usize,
    pool: Arc<Pool>,
}

impl Host {
    /// Reads the config, looks for plugins and loads those that are needed.
    pub fn open(options: &HostOptions) -> Result<Host, Error> {
        look(options)?.load()
    }

    /// A host with the config in that file.
    pub fn from_config(path: impl Into<PathBuf>) -> Result<Host, Error> {
        Host::open(&HostOptions { start: Start::Path(path.into()), ..HostOptions::default() })
    }

    /// A host with only the linked-in `reference` executor. It looks at no file and no variable.
    pub fn reference() -> Result<Host, Error> {
        let text = "config = 1\nexecutors = [\"reference\"]\n".to_owned();
        let around = Surroundings::default();
        Host::open(&HostOptions { start: Start::Text(text), overlay: Overlay::default(), around })
    }

    /// The config as it is understood.
    pub fn config(&self) -> &Resolved {
        &self.resolved
    }

    /// What was noticed in the config: deprecated names, executors left out.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// All plugins that were found, used or not.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// Executors that the config wants and that could not be had.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// A loaded executor, by its real name.
    pub fn executor(&self, name: &str) -> Option<&Arc<LoadedExecutor>> {
        self.executors.get(name)
    }

    /// All loaded executors: those of the order, whom they are like, the last resort.
    pub fn executors(&self) -> impl Iterator<Item = (&str, &Arc<LoadedExecutor>)> {
        self.executors.iter().map(|(name, executor)| (name.as_str(), executor))
    }

    /// Names of `like` that no plugin brings: who is like whom.
    pub fn skipped_likes(&self) -> Vec<(String, String)> {
        let manifests = self.found.manifests();
        let names: BTreeSet<&str> = manifests
            .iter()
            .flat_map(|manifest| &manifest.executors)
            .flat_map(|decl| decl.aliases.iter().map(|alias| alias.name.as_str()).chain([decl.name.as_str()]))
            .collect();
        let declared = |manifest: &&Manifest| manifest.executors.clone();
        let declared =
            manifests.iter().flat_map(declared).filter(|decl| self.executors.contains_key(&decl.name));
        let skipped = declared.flat_map(|decl| {
            let like = decl.like.into_iter().filter(|like| !names.contains(like.as_str()));
            like.map(|like| (decl.name.clone(), like)).collect::<Vec<_>>()
        });
        skipped.collect()
    }

    /// What is odd about the manifests of plugins in use, and changes nothing: id and sentence.
    pub fn plugin_warnings(&self) -> Vec<(String, String)> {
        self.found.warnings_of(&|name| self.executors.contains_key(name))
    }

    /// Where declared libraries were looked for, in that order.
    pub fn libraries(&self) -> &[LibraryPath] {
        &self.libraries
    }

    /// Threads that a run may use.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// A session: the program with its state, seed 0. It is claimed and planned on first use of each size.
    pub fn compile(&self, program: &Program) -> Result<Session, Error> {
        self.compile_seeded(program, 0)
    }

    /// A session whose random ops draw from that seed.
    pub fn compile_seeded(&self, program: &Program, seed: i64) -> Result<Session, Error> {
        self.compile_with(program, seed, !self.resolved.map_weights.value)
    }

    /// As [`Host::compile_seeded`]; `copy_weights`: in memory of the session's own, which can be written.
    pub(crate) fn compile_with(
        &self,
        program: &Program,
        seed: i64,
        copy_weights: bool,
    ) -> Result<Session, Error> {
        let bans = Bans::default();
        let options = SessionOptions { threads: self.threads, seed, copy_weights };
        let inner = crate::run::Session::new(
            program.module().clone(),
            program.weights(),
            self.run_executors(&bans),
            crate::ops::schemas(),
            self.pool.clone(),
            options,
        )?;
        let retry = self.resolved.on_error.value == OnError::Next;
        let executors = self.executors.values().cloned().collect();
        let views = StateViews::of(program);
        Ok(Session::new(inner, self.resolved.clone(), bans, retry, executors, views))
    }

    /// The order with the config's limits, for one session.
    fn run_executors(&self, bans: &Bans) -> Executors {
        let maker =
            |name: &str| self.executors.get(name).map(|executor| executor.clone() as Arc<dyn KernelMaker>);
        let entry = |name: &str| self.order_entry(name, bans);
        let order: Vec<OrderEntry> =
            self.resolved.order.iter().filter_map(|name| entry(&name.value)).collect();
        let in_order = |name: &&String| self.resolved.order.iter().any(|other| other.value == **name);
        let liked = self.executors.keys().filter(|name| !in_order(name));
        let liked = liked.filter_map(|name| entry(name)).collect();
        let last_resort = match self.resolved.last_resort.value {
            LastResort::Reference => maker("reference"),
            LastResort::None => None,
        };
        Executors { order, liked, last_resort }
    }

    /// A loaded executor with the config's limits.
    fn order_entry(&self, name: &str, bans: &Bans) -> Option<OrderEntry> {
        let executor = self.executors.get(name)?;
        let settings = self.resolved.settings(name);
        let fuel = settings.and_then(|settings| settings.fuel.as_ref()).map(|f| f.value);
        let (config, bans, of) = (self.resolved.clone(), bans.clone(), name.to_owned());
        let permits = Arc::new(move |op: &str| permits(&config, &bans, &of, op));
        let decl = executor.declaration();
        let fusion = (decl.kind == Kind::Fusion).then(|| Fusion {
            label: settings.map_or(&decl.label, |s| &s.label.value).as_str().into(),
            rules: settings.map_or_else(|| decl.regions.clone().unwrap_or_default(), |s| s.regions.clone()),
            proposes: executor.proposes(),
        });
        let like = self.resolved.likes_of(&self.found.manifests(), name);
        let like = like.into_iter().map(str::to_owned).collect();
        Some(OrderEntry { executor: executor.clone(), permits, fuel, fusion, like })
    }
}

impl Host {
    /// Tells all executors that the end is near. Call it when no session runs any more: dropping a host tells them
    /// nothing, since its sessions may live on.
    pub fn quiesce(&self) {
        self.executors.values().for_each(|executor| executor.quiesce());
    }
}

/// What a ban names where an executor failed at a region: which of its ops is at fault nobody knows.
const EVERY_OP: &str = "*";

/// Ops that an executor has failed at, with `on_error = "next"`: it is not asked for them again in this session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bans(Arc<Mutex<BTreeMap<(String, String), Refusal>>>);

impl Bans {
    /// Bans an executor from an op. False where it was banned already.
    pub(crate) fn add(&self, executor: &str, op: &str, refusal: Refusal) -> bool {
        let mut bans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let op = if crate::ir::verify::region_name(op).is_some() { EVERY_OP } else { op };
        bans.insert((executor.to_owned(), op.to_owned()), refusal).is_none()
    }

    fn get(&self, executor: &str, op: &str) -> Option<Refusal> {
        let bans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Nearly always empty: no keys are made then.
        if bans.is_empty() {
            return None;
        }
        let of = |op: &str| bans.get(&(executor.to_owned(), op.to_owned())).cloned();
        of(op).or_else(|| of(EVERY_OP))
    }
}

/// Bans, then `deny`, then `allow`.
fn permits(config: &Resolved, bans: &Bans, executor: &str, op: &str) -> Result<(), Refusal> {
    if let Some(refusal) = bans.get(executor, op) {
        return Err(refusal);
    }
    let Some(settings) = config.settings(executor) else { return Ok(()) };
    if settings.deny.value.iter().any(|glob| glob.matches(op)) {
        let sentence = format!("`deny` lists it ({})", settings.deny.from);
        return Err(Refusal::new(executor, codes::DENIED, sentence));
    }
    match &settings.allow {
        Some(allow) if !allow.value.iter().any(|glob| glob.matches(op)) => {
            let sentence = format!("`allow` does not list it ({})", allow.from);
            Err(Refusal::new(executor, codes::NOT_ALLOWED, sentence))
        }
        _ => Ok(()),
    }
}
