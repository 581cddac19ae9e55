/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp - bodies for OpenTelemetry's profiles over HTTP: ExportProfilesServiceRequest of opentelemetry-proto 1.11, whose
 * profiles are at v1development: fields may change without notice, and OTLP_VERSION with them.
 *
 * Written with protobuf_writer.h and not by protobuf-c: the dictionary stands behind the length of all that is in it,
 * so all of it would be structs first, many of them for each sample; and a table's entries are bytes that are told
 * apart by a hash of themselves (string_table.h).
 *
 * One resource with one scope, "pillion", and in that a Profile for each sample type, the default one first, as tools
 * show that one. Of each table of the dictionary entry 0 is the zero value. Samples whose value is 0 are left out, and
 * so is a Profile without samples.
 *
 * Attributes have the names of OpenTelemetry's semantic conventions where there is one, others their own:
 *
 *	resource, where all samples share it	service.name container.name container.id k8s.pod.name k8s.namespace.name
 *						host.name (k8s.node.name of a Pod, too) process.executable.name
 *						process.command process.pid process.linux.cgroup user.*
 *	sample					the same where they differ; thread.name thread.id cpu.logical_number; a
 *						timestamp is the sample's own
 *	location				profile.frame.type: "kernel", "native"; none of what is not known
 *	mapping					process.executable.build_id.gnu (.go)
 *	profile					pprof.profile.comment
 *
 * What Pyroscope finds a name by: period_type is always there, and period is not 0, but for off_cpu/nanoseconds, which
 * it knows by a period of 0. What is off the CPU is off_cpu here; the period of memory is of type "memory".
 */
#pragma once

#include "profiler/push/push_encoder.h"

#define OTLP_VERSION "v1development"

push_encoder_body_fn otlp_body;
