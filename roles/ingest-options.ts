// The options of the role `ingest`: what is taken from devices, the log that it goes to, and the control plane that is asked.

import { type Static, Type } from 'typebox'
import { listenAddressOption } from '../config/http/listen-address.ts'
import { compatibilityOption } from '../config/http/older-clients.ts'
import { httpFaults, httpOptions } from '../config/http/options.ts'
import { loggingOptions } from '../config/logger.ts'
import { loadOptions, type OptionFault, type OptionSources, OptionsError } from '../config/options.ts'
import { environmentOption, knownSecretFaults } from '../config/production.ts'
import { splitSecrets } from '../config/secrets.ts'
import { controlFaults, controlOptions } from '../control-plane/remote/options.ts'
import { ingestFaults, ingestOptions } from '../pipeline/ingest/options.ts'
import { kafkaFaults, kafkaLogOptions } from '../pipeline/kafka/options.ts'

/** The options of `sluice ingest`. */
export const ingestRoleOptions = Type.Object({
  env: environmentOption,
  http: httpOptions,
  compatibility: compatibilityOption,
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9081', 'Address for /metrics and the health of this process.'),
  }),
  control: controlOptions,
  log: kafkaLogOptions,
  ingest: ingestOptions,
  logging: loggingOptions,
})
export type IngestRoleOptions = Static<typeof ingestRoleOptions>

/**
 * The options of `sluice ingest`, and everything about them that can be known before the start.
 *
 * @throws OptionsError with every fault; those between options only where each is right by itself
 */
export function loadIngestOptions(sources: OptionSources): IngestRoleOptions {
  const options = loadOptions(ingestRoleOptions, sources)
  const faults: OptionFault[] = [
    ...httpFaults(options.http),
    ...ingestFaults(options.ingest, options.http),
    ...controlFaults(options.control),
    ...kafkaFaults(options.log, options.env),
    ...knownSecretFaults(options.env, { 'control.token': splitSecrets(options.control.token) }),
  ]
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
