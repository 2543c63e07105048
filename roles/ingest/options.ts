// The options of the role `ingest`: accepted messages, the log that they are appended to, and the control plane.

import { type Static, Type } from 'typebox'
import { loggingOptions } from '../../config/logging-options.ts'
import { loadOptions, type OptionFault, type OptionSources, OptionsError } from '../../config/options/options.ts'
import { processOptions } from '../../config/process-options.ts'
import { environmentOption, knownSecretFaults } from '../../config/production.ts'
import { splitSecrets } from '../../config/secrets.ts'
import { controlFaults, controlOptions } from '../../control-plane/remote/options.ts'
import { listenAddressOption } from '../../http/listen-address.ts'
import { compatibilityOption } from '../../http/older-clients.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'
import { ingestFaults, ingestOptions } from '../../pipeline/ingest/options.ts'
import { kafkaFaults, kafkaLogOptions } from '../../pipeline/kafka/options.ts'
import { mqttFaults, mqttOptions } from '../../pipeline/mqtt/options.ts'

/** The options of `./sluice ingest`. */
export const ingestRoleOptions = Type.Object({
  env: environmentOption,
  http: httpOptions,
  compatibility: compatibilityOption,
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9081', 'Address for metrics and health of this process.'),
  }),
  control: controlOptions,
  log: kafkaLogOptions,
  ingest: ingestOptions,
  mqtt: mqttOptions(false),
  logging: loggingOptions,
  process: processOptions,
})
export type IngestRoleOptions = Static<typeof ingestRoleOptions>

/**
 * Loads and checks the options of `./sluice ingest`.
 *
 * @throws OptionsError with every fault; combinations of options are checked only if each option is valid
 */
export function loadIngestOptions(sources: OptionSources): IngestRoleOptions {
  const options = loadOptions(ingestRoleOptions, sources)
  const faults: OptionFault[] = [
    ...httpFaults(options.http),
    ...ingestFaults(options.ingest, options.http),
    ...mqttFaults(options.mqtt),
    ...controlFaults(options.control),
    ...kafkaFaults(options.log, options.env),
    ...knownSecretFaults(options.env, { 'control.token': splitSecrets(options.control.token) }),
  ]
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
