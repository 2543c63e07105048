// The options of the role `reader`: its listener, the control plane that decides who may read, and the store.

import { type Static, type TObject, Type } from 'typebox'
import { loggingOptions } from '../../config/logging-options.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, OptionsError } from '../../config/options/options.ts'
import { processOptions } from '../../config/process-options.ts'
import { environmentOption, knownSecretFaults } from '../../config/production.ts'
import { splitSecrets } from '../../config/secrets.ts'
import { controlFaults, controlOptions } from '../../control-plane/remote/options.ts'
import { listenAddressOption, parseListenAddress } from '../../http/listen-address.ts'
import { compatibilityOption } from '../../http/older-clients.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'
import { readerOptions } from '../../readers/options.ts'
import type { StoreOptions } from '../stores/options.ts'
import { cursorKeyOption } from './cursor-key.ts'
import { readerLiveFaults, readerLiveSections } from './live.ts'

/** The options of a reader that do not depend on its store. */
const readerRoleOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9084 }) }),
  compatibility: compatibilityOption,
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9085', 'Address for metrics and health of this process.'),
  }),
  control: controlOptions,
  reader: Type.Object({ ...readerOptions.properties, cursorKey: cursorKeyOption }),
  ...readerLiveSections,
  logging: loggingOptions,
  process: processOptions,
})

/** `store` is the section of the kind of store; only that kind reads it. */
export type ReaderRoleOptions = Static<typeof readerRoleOptions> & { readonly store: unknown }

/** The options of `./sluice reader <store>`. */
export function readerOptionsOf({ reader: store }: Pick<StoreOptions, 'reader'>): TObject {
  const { env, http, compatibility, internal, control, ...rest } = readerRoleOptions.properties
  return Type.Object({ env, http, compatibility, internal, control, store, ...rest })
}

/**
 * Loads and checks the options of `./sluice reader <store>`.
 *
 * @throws OptionsError with every fault; combinations of options are checked only if each option is valid
 */
export function loadReaderOptions(kind: StoreOptions, sources: OptionSources): ReaderRoleOptions {
  const options = loadOptions(readerOptionsOf(kind), sources) as ReaderRoleOptions
  const { env, http, internal, control, store, reader } = options
  const faults: OptionFault[] = [...httpFaults(http), ...controlFaults(control)]
  noteFault(faults, 'internal.listen', () => void parseListenAddress(internal.listen))
  faults.push(...kind.faults(store), ...readerLiveFaults(options, env))
  const secrets = { 'control.token': splitSecrets(control.token), 'reader.cursor_key': reader.cursorKey, ...kind.secrets(store) }
  faults.push(...knownSecretFaults(env, secrets))
  if (faults.length > 0) throw new OptionsError(faults)
  return options
}
