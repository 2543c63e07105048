// The options of the role `up`: the sections of its parts under one roof, and the relations between them.

import { type Static, Type } from 'typebox'
import { loggingOptions } from './config/logging-options.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, withFaults } from './config/options/options.ts'
import { processOptions } from './config/process-options.ts'
import { environmentOption, knownSecretFaults } from './config/production.ts'
import { certificatesFaults, certificatesOptions } from './control-plane/certificates/options.ts'
import { adminFaults, adminOptions, auditOptions, tokensOptions, usersOptions } from './control-plane/options.ts'
import { policiesOptions } from './control-plane/policies/options.ts'
import { loadProvisioning, type ProvisionOptions, provisionOptions } from './control-plane/provisioning/options.ts'
import { compatibilityOption } from './http/older-clients.ts'
import { httpFaults, httpOptions } from './http/options.ts'
import { ingestFaults, ingestOptions } from './pipeline/ingest/options.ts'
import { assertMemory } from './pipeline/memory.ts'
import { mqttFaults, mqttOptions } from './pipeline/mqtt/options.ts'
import { batchOptions, logOptions, messageOptions, subscriberOptions, workersOptions } from './pipeline/options.ts'
import { transformerFaults, transformerOptions } from './pipeline/transformer-options.ts'
import { subjectFilter } from './pipeline/writer/subject-filter.ts'
import { liveOptions } from './readers/live/options.ts'
import { readerOptions } from './readers/options.ts'
import { retentionFaults } from './sinks/options.ts'
import { sinkOptions } from './sinks/postgres/options.ts'

const dataOptions = Type.Object({
  folder: Type.String({ default: './data', minLength: 1, flag: '--data', description: 'Folder that holds everything that is kept.' }),
})

const demoOption = Type.Boolean({
  default: false,
  flag: '--demo',
  description:
    'Let administrators start simulated devices in the console, kill the writer, cut the store, and publish messages that cannot be decoded.',
})

/** The options of `./sluice up`. */
export const upOptions = Type.Object({
  env: environmentOption,
  http: httpOptions,
  compatibility: compatibilityOption,
  data: dataOptions,
  demo: demoOption,
  admin: adminOptions,
  users: usersOptions,
  tokens: tokensOptions,
  audit: auditOptions,
  policies: Type.Pick(policiesOptions, ['store']),
  certificates: certificatesOptions,
  provision: provisionOptions,
  ingest: ingestOptions,
  mqtt: mqttOptions(true),
  log: logOptions,
  message: messageOptions,
  subscriber: subscriberOptions,
  transformer: transformerOptions,
  batch: batchOptions,
  workers: workersOptions,
  store: sinkOptions,
  reader: readerOptions,
  live: liveOptions,
  logging: loggingOptions,
  process: processOptions,
})
/** With what the section `provision` and the layout file come to, and without the servers that `up` does not ask. */
export type UpOptions = Static<typeof upOptions> & {
  readonly provisioning: ProvisionOptions
  readonly policies: { readonly store: 'relational' }
}

/**
 * The options of `./sluice up`, and everything about them that can be known before the start.
 *
 * @throws OptionsError with every fault; those between options only where each is right by itself
 */
export function loadUpOptions(sources: OptionSources): UpOptions {
  const options = loadOptions(upOptions, sources)
  const faults: OptionFault[] = [...httpFaults(options.http), ...ingestFaults(options.ingest, options.http), ...mqttFaults(options.mqtt)]
  faults.push(...transformerFaults(options.transformer), ...retentionFaults(options.store))
  noteFault(faults, 'subscriber.subjects', () => void subjectFilter(options.subscriber.subjects))
  noteFault(faults, 'workers.memory_bytes', () => void assertMemory(options))
  if (options.ingest.payloadBytesMax > options.message.payloadBytes) {
    const problem = `ingest would acknowledge payloads of up to ${options.ingest.payloadBytesMax} bytes, but the writer rejects those above message.payload_bytes of ${options.message.payloadBytes}: raise message.payload_bytes too`
    faults.push({ place: 'ingest.payload_bytes_max', problem })
  }
  if (options.policies.store !== 'relational') {
    const problem = `a policy change would block all requests, because it occupies the only connection of the embedded database while it waits for the OpenFGA server: leave it at relational, or start \`./sluice api\``
    faults.push({ place: 'policies.store', problem })
  }
  faults.push(...adminFaults(options.admin), ...certificatesFaults(options.certificates))
  faults.push(...knownSecretFaults(options.env, { 'admin.password': options.admin.password }))
  const { env, compatibility, provision, http, certificates } = options
  const { environment } = sources
  const provisioning = withFaults(faults, () =>
    loadProvisioning(provision, { env, compatibility, ttlHoursMax: certificates.ttlHoursMax, http, environment }),
  )
  return { ...options, policies: { store: 'relational' }, provisioning }
}
