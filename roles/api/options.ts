// The options of the role `api`: the control plane on a PostgreSQL server.

import { type Static, Type } from 'typebox'
import { loggingOptions } from '../../config/logging-options.ts'
import { loadOptions, type OptionFault, type OptionSources, withFaults } from '../../config/options/options.ts'
import { processOptions } from '../../config/process-options.ts'
import { environmentOption, knownSecretFaults } from '../../config/production.ts'
import { parseMasterKeys, splitSecrets } from '../../config/secrets.ts'
import { certificatesFaults, certificatesOptions } from '../../control-plane/certificates/options.ts'
import { internalFaults, internalOptions } from '../../control-plane/internal/options.ts'
import { adminFaults, adminOptions, auditOptions, servicesOption, tokensOptions, usersOptions } from '../../control-plane/options.ts'
import { policiesFaults, policiesOptions } from '../../control-plane/policies/options.ts'
import { loadProvisioning, type ProvisionOptions, provisionOptions } from '../../control-plane/provisioning/options.ts'
import { databaseUrlFaults, passwordOf } from '../../database/database-url.ts'
import { compatibilityOption } from '../../http/older-clients.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'

const databaseOptions = Type.Object({
  url: Type.String({
    pattern: '^postgres(ql)?://.',
    secret: true,
    allowed: 'a URL such as postgres://user:password@host:5432/database',
    description: "The control plane's PostgreSQL database, without a pooler in transaction mode (it drops notifications).",
  }),
  connectionsMax: Type.Integer({
    default: 10,
    minimum: 1,
    maximum: 1_000,
    description: 'Most connections of this process, besides one for notifications.',
  }),
})

/** The options of `./sluice api`. */
export const apiOptions = Type.Object({
  env: environmentOption,
  masterKey: Type.String({
    minLength: 1,
    secret: true,
    allowed: 'what `./sluice secrets generate` prints (32 random bytes as base64url); several separated by commas, to rotate the key',
    description: 'Encrypts all secrets in the database; the same for every instance. Of several, the first encrypts and all decrypt.',
  }),
  http: httpOptions,
  compatibility: compatibilityOption,
  internal: internalOptions,
  database: databaseOptions,
  admin: adminOptions,
  users: usersOptions,
  tokens: tokensOptions,
  audit: auditOptions,
  policies: policiesOptions,
  certificates: certificatesOptions,
  provision: provisionOptions,
  services: servicesOption,
  logging: loggingOptions,
  process: processOptions,
})
/** With the result of the section `provision` and the layout file. */
export type ApiOptions = Static<typeof apiOptions> & { readonly provisioning: ProvisionOptions }

/**
 * Loads and checks the options of `./sluice api`.
 *
 * @throws OptionsError with every fault; combinations of options are checked only if each option is valid
 */
export function loadApiOptions(sources: OptionSources): ApiOptions {
  const options = loadOptions(apiOptions, sources)
  const { env, masterKey, http, internal, database, admin, policies, certificates, provision, compatibility } = options
  const faults: OptionFault[] = [
    ...httpFaults(http),
    ...internalFaults(internal),
    ...adminFaults(admin),
    ...policiesFaults(policies),
    ...certificatesFaults(certificates),
  ]
  try {
    parseMasterKeys(masterKey, 'SVC_MASTER_KEY')
  } catch (error) {
    faults.push({ place: 'master_key', problem: (error as Error).message })
  }
  faults.push(...databaseUrlFaults('database.url', database.url))
  if (policies.store === 'openfga' && database.connectionsMax < 2) {
    const problem = 'with policies.store = openfga at least 2 are needed, because one waits for that server'
    faults.push({ place: 'database.connections_max', problem })
  }
  const secrets = {
    master_key: splitSecrets(masterKey),
    'internal.token': splitSecrets(internal.token),
    'database.url': passwordOf(database.url),
    'admin.password': admin.password,
    'policies.openfga.key': policies.openfga.key,
    'certificates.vault.token': certificates.vault.token,
  }
  faults.push(...knownSecretFaults(env, secrets))
  const { environment } = sources
  const provisioning = withFaults(faults, () =>
    loadProvisioning(provision, { env, compatibility, ttlHoursMax: certificates.ttlHoursMax, http, environment }),
  )
  return { ...options, provisioning }
}
