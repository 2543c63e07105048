// Names of release 0.13 in the layout file and the environment: with `compatibility` they are read like the current names, without it they are faults.

import type { OptionFault } from '../../config/options/faults.ts'
import { type OptionFile, type OptionTable, placeInFile } from '../../config/options/file.ts'
import { nearest } from '../../config/options/nearest.ts'
import type { Compatibility } from '../../http/older-clients.ts'

const isOneProcess = 'the services that it found there are one process now'
const tlsIsElsewhere = 'set SVC_HTTP_CERT_FILE and SVC_HTTP_KEY_FILE'
const portIsElsewhere = 'set SVC_HTTP_PORT'
const levelIsElsewhere = 'set SVC_LOGGING_LEVEL'
const fileIsElsewhere = 'set SVC_PROVISION_CONFIG_PATH'

/** Gives the path of the layout file itself, so it is read before the others. */
export const olderPathVariable = 'MF_PROVISION_CONFIG_FILE'

const renamedKeys: Readonly<Record<string, string>> = { mf_user: 'svc_user', mf_pass: 'svc_pass', mf_api_key: 'api_key' }
const credentialKeys = new Set(Object.values(renamedKeys))

/** Keys of the file that are ignored here, and why. */
const endedKeys: Readonly<Record<string, string>> = {
  file: fileIsElsewhere,
  port: portIsElsewhere,
  http_port: portIsElsewhere,
  log_level: levelIsElsewhere,
  LogLevel: levelIsElsewhere,
  tls: tlsIsElsewhere,
  server_cert: tlsIsElsewhere,
  server_key: tlsIsElsewhere,
  ca_certs: isOneProcess,
  users_url: isOneProcess,
  things_url: isOneProcess,
  users_location: isOneProcess,
  things_location: isOneProcess,
  mf_bs_url: isOneProcess,
  mf_white_list: isOneProcess,
  mf_certs_url: isOneProcess,
  mqtt_url: isOneProcess,
}

/** Variables, with the key of the layout file that has the same meaning, and the current name. */
const renamedVariables: Readonly<Record<string, readonly [key: string, today: string]>> = {
  [olderPathVariable]: ['', 'SVC_PROVISION_CONFIG_PATH'],
  MF_PROVISION_USER: ['svc_user', 'SVC_PROVISION_USER'],
  MF_PROVISION_PASS: ['svc_pass', 'SVC_PROVISION_PASSWORD'],
  MF_PROVISION_API_KEY: ['api_key', 'SVC_PROVISION_API_KEY'],
  MF_PROVISION_X509_PROVISIONING: ['bootstrap.x509_provision', 'bootstrap.x509_provision in the layout file'],
  MF_PROVISION_BS_CONFIG_PROVISIONING: ['bootstrap.provision', 'bootstrap.provision in the layout file'],
  MF_PROVISION_BS_AUTO_WHITELIST: ['bootstrap.autowhite_list', 'bootstrap.autowhite_list in the layout file'],
  MF_PROVISION_BS_CONTENT: ['bootstrap.content', '[bootstrap.content] in the layout file'],
  MF_PROVISION_CERTS_RSA_BITS: ['cert.key_bits', 'cert.key_bits in the layout file'],
  MF_PROVISION_CERTS_HOURS_VALID: ['cert.ttl', 'cert.ttl in the layout file'],
}

const endedVariables: Readonly<Record<string, string>> = {
  MF_PROVISION_HTTP_PORT: portIsElsewhere,
  MF_PROVISION_LOG_LEVEL: levelIsElsewhere,
  MF_PROVISION_ENV_CLIENTS_TLS: isOneProcess,
  MF_PROVISION_SERVER_CERT: tlsIsElsewhere,
  MF_PROVISION_SERVER_KEY: tlsIsElsewhere,
  MF_PROVISION_USERS_LOCATION: isOneProcess,
  MF_PROVISION_THINGS_LOCATION: isOneProcess,
  MF_PROVISION_BS_SVC_URL: isOneProcess,
  MF_PROVISION_BS_SVC_WHITELIST_URL: isOneProcess,
  MF_PROVISION_CERTS_SVC_URL: isOneProcess,
}

/** Messages about older names: warnings if they are accepted, faults if not. */
export interface Notes {
  readonly warnings: string[]
  readonly faults: OptionFault[]
}

/**
 * The layout file with the keys of `[server]` at its top level and those of release 0.13 under their current names. Empty credentials count as absent:
 * that is how the file of release 0.13 has them.
 */
export function fileOfToday(path: string, file: OptionFile, compatibility: Compatibility, notes: Notes): OptionFile {
  const { server = {}, ...top } = file.values
  const values: Record<string, unknown> = {}
  const places = new Map<string, readonly string[]>()
  const take = (keys: readonly string[], value: unknown): void => {
    const place = placeInFile(path, file, keys)
    const key = keys.at(-1)!
    const ended = endedKeys[key]
    const today = renamedKeys[key] ?? key
    if (ended !== undefined || today !== key) noteOlder(notes, compatibility, place, keys.join('.'), today, ended)
    if (ended !== undefined || (value === '' && credentialKeys.has(today))) return
    if (Object.hasOwn(values, today)) notes.faults.push({ place, problem: `${today} is given twice: remove one` })
    values[today] = value
    places.set(today, keys)
  }
  for (const [key, value] of Object.entries(top)) take([key], value)
  if (isTable(server)) for (const [key, value] of Object.entries(server)) take(['server', key], value)
  else notes.faults.push({ place: placeInFile(path, file, ['server']), problem: 'server is a section: write it as [server]' })
  return { values, lineOf: ([first = '', ...rest]) => file.lineOf([...(places.get(first) ?? [first]), ...rest]) }
}

/**
 * The variables of release 0.13 that apply: those that are not empty, and whose key is not in the layout file, which took precedence there.
 *
 * @returns none without compatibility
 */
export function olderVariables(
  environment: Readonly<Record<string, string | undefined>>,
  file: OptionFile,
  compatibility: Compatibility,
  notes: Notes,
): Record<string, string> {
  const counting: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (!name.startsWith('MF_PROVISION_') || value === undefined) continue
    const [key, today] = renamedVariables[name] ?? []
    const ended = endedVariables[name]
    if (key === undefined && ended === undefined) {
      const near = nearest(name, [...Object.keys(renamedVariables), ...Object.keys(endedVariables)])
      notes.faults.push({ place: name, problem: `unknown variable: ${near === undefined ? 'unset it' : `did you mean ${near}?`}` })
      continue
    }
    if (compatibility === '0.13' && value === '') continue
    noteOlder(notes, compatibility, name, 'it', today, ended)
    if (compatibility !== '0.13' || key === undefined || isSet(file.values, key.split('.'))) continue
    counting[name] = name === 'MF_PROVISION_CERTS_HOURS_VALID' && /^\d+$/.test(value) ? `${value}h` : value
  }
  return counting
}

/** @param ended why it is no longer used; otherwise `today` is what to write in its place */
function noteOlder(notes: Notes, compatibility: Compatibility, place: string, name: string, today = '', ended?: string): void {
  if (compatibility === '0.13') {
    notes.warnings.push(`${place}: ${name} ${ended === undefined ? `is a name of release 0.13: write ${today}` : `is ignored: ${ended}`}`)
    return
  }
  const advice = ended === undefined ? `write ${today}` : `remove it (${ended})`
  notes.faults.push({ place, problem: `${name} is a name of release 0.13: ${advice}, or set SVC_COMPATIBILITY=0.13` })
}

function isSet(values: OptionTable, [key = '', ...rest]: readonly string[]): boolean {
  const value = values[key]
  return rest.length === 0 ? value !== undefined : isTable(value) && isSet(value, rest)
}

function isTable(value: unknown): value is OptionTable {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
