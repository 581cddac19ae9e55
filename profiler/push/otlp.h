/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp - makes request bodies for OpenTelemetry's profiles over HTTP: ExportProfilesServiceRequest of
 * opentelemetry-proto 1.11. Its profiles are at v1development: fields may change without notice, and OTLP_VERSION with
 * them.
 *
 * Written with protobuf.h and not by protobuf-c: the dictionary stands behind its own length, so protobuf-c
 * would need all of it as structs first, many of them for each sample. Entries of a table are byte strings,
 * deduplicated by their hash (string_table.h).
 *
 * One resource with one scope, "pillion", and in it a Profile for each sample type, the default one first, because
 * tools show the first. Entry 0 of each table of the dictionary is the zero value. Samples with value 0 are left out,
 * and so are Profiles without samples.
 *
 * Attributes have the names of OpenTelemetry's semantic conventions where these define one, else their own:
 *
 *	resource, where all samples share it	service.name container.name container.id k8s.pod.name k8s.namespace.name
 *						host.name (k8s.node.name of a Pod, too) process.executable.name
 *						process.command process.pid process.linux.cgroup user.*
 *	sample					the same where they differ; thread.name thread.id cpu.logical_number; a
 *						timestamp is the sample's own
 *	location				profile.frame.type: "kernel", "native"; none if unknown
 *	mapping					process.executable.build_id.gnu (.go)
 *	profile					pprof.profile.comment
 *
 * Pyroscope derives its names from two fields: period_type is always there, and period is not 0, except for
 * off_cpu/nanoseconds, which Pyroscope knows by a period of 0. The sample type offcpu is called off_cpu here; the
 * period of memory is of type "memory".
 */
#pragma once

#include "profiler/push/push_encoder.h"

#define OTLP_VERSION "v1development"

push_encoder_body_fn otlp_body;
