//! Tests of the importer: on real models in both dialects, on small graphs written for one rule each, on damaged ones.

mod graphs;
mod models;
mod mutation;
