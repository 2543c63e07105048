// deploy/compose.yaml as Docker Compose reads it: merged, and with its variables replaced; and its secrets, made by its script.

import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { root } from '../tidy/files.ts'

export const deployFolder = join(root, 'deploy')

export interface Service {
  readonly image: string
  readonly build?: object
  readonly pull_policy?: string
  readonly profiles?: readonly string[]
  readonly user?: string
  readonly entrypoint?: readonly string[]
  readonly command?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly secrets?: readonly (string | { readonly source: string; readonly target: string })[]
  /** `./file:/path:ro`, or `volume:/path`. */
  readonly volumes?: readonly string[]
  readonly ports?: readonly string[]
  readonly networks: readonly string[] | Readonly<Record<string, { readonly ipv4_address?: string }>>
  readonly extra_hosts?: Readonly<Record<string, string>>
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: { readonly test?: readonly string[]; readonly disable?: true }
  readonly restart: string
  readonly read_only?: true
  readonly cap_drop: readonly string[]
  readonly cap_add?: readonly string[]
  readonly security_opt: readonly string[]
  readonly deploy: { readonly resources: { readonly limits: { readonly memory: string; readonly pids: number } } }
}

export interface Compose {
  readonly services: Readonly<Record<string, Service>>
  readonly networks: Readonly<Record<string, { readonly internal?: true }>>
  readonly volumes: Readonly<Record<string, object>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}

/** @param environment the variables of `${…}`: without one its default is used */
export function readCompose(environment: Readonly<Record<string, string>> = { SLUICE_USER: '65532:65532' }): Compose {
  const text = readFileSync(join(deployFolder, 'compose.yaml'), 'utf8')
  const replaced = text.replaceAll(/\$\$|\$\{(\w+)(?::([-?])([^}]*))?\}/g, (whole, name?: string, how?: string, rest = '') => {
    if (name === undefined) return '$'
    const value = environment[name]
    if (value !== undefined && value !== '') return value
    if (how === '-') return rest
    throw new Error(`${whole}: ${rest}`)
  })
  return parse(replaced, { merge: true, maxAliasCount: 1_000 }) as Compose
}

/** Of a role: `writer relational`. Undefined for another image. */
export function roleOf({ image, entrypoint, command = [] }: Service): string | undefined {
  return image.startsWith('sluice:') && entrypoint === undefined ? command.join(' ') : undefined
}

export const networksOf = ({ networks }: Service): readonly string[] => (Array.isArray(networks) ? networks : Object.keys(networks))

/** In the network `front`. */
export function addressOf({ networks }: Service): string | undefined {
  return Array.isArray(networks) ? undefined : (networks as Readonly<Record<string, { ipv4_address?: string }>>)['front']?.ipv4_address
}

/** The files that compose mounts as the service's secrets, by their paths in the container. */
export function secretsOf({ secrets = [] }: Service): ReadonlyMap<string, string> {
  return new Map(
    secrets.map(secret =>
      typeof secret === 'string' ? [`/run/secrets/${secret}`, secret] : [`/run/secrets/${secret.target}`, secret.source],
    ),
  )
}

/** Runs secrets.sh below an empty folder. Resolves with the folder of the secrets, and what the script printed. */
export async function makeSecrets(folder: string, names: readonly string[] = []): Promise<{ path: string; printed: string }> {
  mkdirSync(join(folder, 'compose'), { recursive: true })
  cpSync(join(deployFolder, 'compose/secrets.sh'), join(folder, 'compose/secrets.sh'))
  const { stdout } = await promisify(execFile)('sh', [join(folder, 'compose/secrets.sh'), ...names])
  return { path: join(folder, 'compose/secrets'), printed: stdout }
}
