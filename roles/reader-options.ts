// The options of the role `reader`: where messages are read, the control plane that is asked who may, and the store that they lie in.

import { type Static, type TObject, Type } from 'typebox'
import { listenAddressOption, parseListenAddress } from '../config/http/listen-address.ts'
import { compatibilityOption } from '../config/http/older-clients.ts'
import { httpFaults, httpOptions } from '../config/http/options.ts'
import { loggingOptions } from '../config/logger.ts'
import { loadOptions, noteFault, type OptionFault, type OptionSources, OptionsError } from '../config/options.ts'
import { environmentOption, knownSecretFaults } from '../config/production.ts'
import { splitSecrets } from '../config/secrets.ts'
import { controlFaults, controlOptions } from '../control-plane/remote/options.ts'
import { readerOptions } from '../readers/options.ts'
import { cursorKeyOption } from './cursor-key.ts'
import { readerLiveFaults, readerLiveSections } from './reader-live.ts'
import type { StoreKind } from './stores/store.ts'

/** The options of a reader, whatever its store. */
export const readerRoleOptions = Type.Object({
  env: environmentOption,
  http: Type.Object({ ...httpOptions.properties, port: Type.Integer({ ...httpOptions.properties.port, default: 9084 }) }),
  compatibility: compatibilityOption,
  internal: Type.Object({
    listen: listenAddressOption('127.0.0.1:9085', 'Address for /metrics and the health of this process.'),
  }),
  control: controlOptions,
  reader: Type.Object({ ...readerOptions.properties, cursorKey: cursorKeyOption }),
  ...readerLiveSections,
  logging: loggingOptions,
})

/** `store` is the section as its kind has it: nobody else looks into it. */
export type ReaderRoleOptions = Static<typeof readerRoleOptions> & { readonly store: unknown }

/** The options of `sluice reader <store>`. */
export function readerOptionsOf({ readerOptions: store }: Pick<StoreKind, 'readerOptions'>): TObject {
  const { env, http, compatibility, internal, control, ...rest } = readerRoleOptions.properties
  return Type.Object({ env, http, compatibility, internal, control, store, ...rest })
}

/**
 * The options of `sluice reader <store>`, and everything about them that can be known before the start.
 *
 * @throws OptionsError with every fault; those between options only where each is right by itself
 */
export function loadReaderOptions(kind: StoreKind, sources: OptionSources): ReaderRoleOptions {
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
