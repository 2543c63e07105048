// The section `provision`: the layout of mappings, the credentials that they are created with, and who may reach them.

import { type Static, Type } from 'typebox'
import { type OptionFault, OptionsError } from '../../config/options/options.ts'
import { named } from '../../config/options/variable.ts'
import { knownSecretFaults } from '../../config/production.ts'
import { isLoopback } from '../../http/listen-address.ts'
import type { Compatibility } from '../../http/older-clients.ts'
import type { HttpOptions } from '../../http/options.ts'
import { defaultLayout, type Layout } from './layout.ts'
import { type LayoutFile, readLayout } from './layout-file.ts'

const externalKeyBytesDefault = 8
/** Keys with fewer bytes can be guessed in the long run, although failed fetches are limited. */
const externalKeyBytesAdvised = 16

export const provisionOptions = Type.Object({
  configPath: Type.Optional(
    Type.String({
      allowed: 'the path of a TOML file',
      description: 'The layout file: what a mapping creates. Without one: one thing and the channels control and data.',
    }),
  ),
  user: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Email of the user for mappings without `Authorization`.',
    }),
  ),
  password: Type.Optional(Type.String({ minLength: 1, secret: true, description: "That user's password." })),
  pass: Type.Optional(Type.String({ minLength: 1, secret: true, description: 'Its older name.' })),
  apiKey: Type.Optional(
    Type.String({
      minLength: 1,
      secret: true,
      description: "A user's API key, instead of user and password.",
    }),
  ),
  open: Type.Optional(
    Type.Boolean({
      defaultText: '`false`',
      description: 'Whether other machines may request mappings without `Authorization`; otherwise `http.host` must be loopback.',
    }),
  ),
  externalKeyBytesMin: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 256,
      defaultText: `\`${externalKeyBytesDefault}\``,
      description: `Fewest bytes in an external key; below ${externalKeyBytesAdvised} the start warns, below ${externalKeyBytesDefault} it needs \`compatibility\`.`,
    }),
  ),
})

/** The user of mappings without `Authorization`. */
export type ProvisionCredentials =
  | { readonly kind: 'api-key'; readonly apiKey: string }
  | { readonly kind: 'password'; readonly user: string; readonly password: string }

/** The settings of provisioning: options, variables and layout file combined. */
export interface ProvisionOptions {
  readonly layout: Layout
  /** Absent: every mapping needs `Authorization`. */
  readonly credentials?: ProvisionCredentials
  readonly externalKeyBytesMin: number
  /** Sentences to log at the start. */
  readonly warnings: readonly string[]
}

/** For a platform without a layout file. */
export const provisioningDefaults: Omit<ProvisionOptions, 'warnings'> = {
  layout: defaultLayout,
  externalKeyBytesMin: externalKeyBytesDefault,
}

export interface ProvisionSurroundings {
  readonly env: 'development' | 'production'
  readonly compatibility: Compatibility
  /** How long a certificate may be valid. */
  readonly ttlHoursMax: number
  /** The address of the public listener, and the proxies in front of it. */
  readonly http: Pick<HttpOptions, 'host' | 'trustedProxies'>
  /** For the variables of release 0.13. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

/**
 * Combines the section and the layout file; the section takes precedence.
 *
 * @throws OptionsError with every fault
 */
export function loadProvisioning(section: Static<typeof provisionOptions>, surroundings: ProvisionSurroundings): ProvisionOptions {
  const { env, compatibility, ttlHoursMax, http, environment } = surroundings
  const { host, trustedProxies } = http
  const {
    layout,
    settings,
    warnings: fileWarnings,
  }: LayoutFile = readLayout(section.configPath || undefined, { compatibility, environment })
  const faults: OptionFault[] = []
  const warnings = [...fileWarnings]

  const user = section.user ?? settings.svcUser
  const password = section.password ?? section.pass ?? settings.svcPass
  const apiKey = section.apiKey ?? settings.apiKey
  if (section.password !== undefined && section.pass !== undefined && section.password !== section.pass) {
    faults.push({ place: 'provision.pass', problem: 'differs from provision.password: set only one of them' })
  }
  if ((user === undefined) !== (password === undefined)) {
    const [missing, there] = user === undefined ? ['user', 'password'] : ['password', 'user']
    const instead = apiKey === undefined ? 'set both, or an API key instead' : 'unset it, because an API key is set'
    faults.push({ place: `provision.${missing}`, problem: `is missing beside ${named(`provision.${there}`)}: ${instead}` })
  }
  if (apiKey !== undefined && user !== undefined) {
    warnings.push('provision has an API key as well as a user with a password: the API key is used; unset the others')
  }
  const credentials = credentialsOf(user, password, apiKey)
  const isOpen = section.open ?? settings.open ?? false
  if (credentials !== undefined && !isOpen && (!isLoopback(host) || trustedProxies.length > 0)) {
    faults.push({
      place: 'provision.open',
      problem: `other machines reach ${isLoopback(host) ? named('http.trusted_proxies') : `${named('http.host')} ${host}`}, and with credentials configured their mappings need no Authorization: listen on 127.0.0.1, unset the credentials, or set SVC_PROVISION_OPEN=true if a proxy in front decides who may connect`,
    })
  }
  const externalKeyBytesMin = section.externalKeyBytesMin ?? settings.externalKeyBytesMin ?? externalKeyBytesDefault
  if (externalKeyBytesMin < externalKeyBytesDefault && compatibility === 'none') {
    faults.push({
      place: 'provision.external_key_bytes_min',
      problem: `is ${externalKeyBytesMin}: give at least ${externalKeyBytesDefault}, or set SVC_COMPATIBILITY=0.13 for devices of older platforms`,
    })
  }
  // A platform on defaults does not warn about them.
  const isSetUp = credentials !== undefined || Object.keys(section).length > 0
  if (externalKeyBytesMin < externalKeyBytesAdvised && isSetUp) {
    warnings.push(
      `external keys of ${externalKeyBytesMin} bytes are accepted: set SVC_PROVISION_EXTERNAL_KEY_BYTES_MIN to ${externalKeyBytesAdvised} or more once all devices have longer ones`,
    )
  }
  if (layout.bootstrap.hasCertificates && layout.certificate.ttlSeconds > ttlHoursMax * 3_600) {
    const problem = `is ${ttlHoursMax}, and the layout requests certificates of ${layout.certificate.ttlSeconds / 3_600} hours: raise it, or lower cert.ttl there`
    faults.push({ place: 'certificates.ttl_hours_max', problem })
  }
  faults.push(...knownSecretFaults(env, { 'provision.password': password, 'provision.api_key': apiKey }))
  if (faults.length > 0) throw new OptionsError(faults)
  return { layout, ...(credentials === undefined ? {} : { credentials }), externalKeyBytesMin, warnings }
}

function credentialsOf(
  user: string | undefined,
  password: string | undefined,
  apiKey: string | undefined,
): ProvisionCredentials | undefined {
  if (apiKey !== undefined) return { kind: 'api-key', apiKey }
  return user === undefined || password === undefined ? undefined : { kind: 'password', user, password }
}
