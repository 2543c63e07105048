// The options of the role `bridge`: the broker that it reads, and the log that it appends to.

import { type Static, Type } from 'typebox'
import { loggingOptions } from '../../config/logging-options.ts'
import { loadOptions, type OptionFault, type OptionSources, OptionsError } from '../../config/options/options.ts'
import { processOptions } from '../../config/process-options.ts'
import { environmentOption, knownSecretFaults } from '../../config/production.ts'
import { listenAddressOption } from '../../http/listen-address.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'
import { brokerFaults, brokerOptions } from '../../pipeline/bridge/options.ts'
import { kafkaFaults, kafkaLogOptions } from '../../pipeline/kafka/options.ts'
import { messageOptions } from '../../pipeline/options.ts'

/** The options of `./sluice bridge`. */
export const bridgeOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9088 }) }),
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9089', 'Address for metrics and health of this process.'),
  }),
  broker: brokerOptions,
  log: kafkaLogOptions,
  message: Type.Object({ payloadBytes: messageOptions.properties.payloadBytes }),
  logging: loggingOptions,
  process: processOptions,
})
export type BridgeOptions = Static<typeof bridgeOptions>

/**
 * Loads and checks the options of `./sluice bridge`.
 *
 * @throws OptionsError with every fault; combinations of options are checked only if each option is valid
 */
export function loadBridgeOptions(sources: OptionSources): BridgeOptions {
  const options = loadOptions(bridgeOptions, sources)
  const faults: OptionFault[] = [
    ...httpFaults(options.http),
    ...brokerFaults(options.broker),
    ...kafkaFaults(options.log, options.env),
    ...knownSecretFaults(options.env, { 'broker.password': options.broker.password }),
  ]
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
