// The pods of a rendered chart as processes of this machine: each with its commands, variables, files and ports, on a loopback address of its own.

import { randomInt } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Spawned, spawnProgram } from '../roles/processes.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import type { KubernetesObject, Rendered } from './chart.ts'

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

export interface Container {
  readonly image: string
  readonly args: readonly string[]
  readonly env: readonly { readonly name: string; readonly value: string }[]
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[]
  readonly startupProbe: Probe
  readonly livenessProbe: Probe
  readonly readinessProbe: Probe
  readonly securityContext: object
}

export interface PodSpec {
  readonly containers: readonly [Container]
  readonly volumes?: readonly Volume[]
  readonly securityContext: object
}

interface Volume {
  readonly name: string
  readonly projected?: {
    readonly sources: readonly { readonly secret: { readonly name: string; readonly items: readonly [{ key: string; path: string }] } }[]
  }
  readonly configMap?: { readonly name: string }
}

export interface PodTemplate {
  readonly metadata: { readonly labels: Labels; readonly annotations: Labels }
  readonly spec: PodSpec
}

type Labels = Readonly<Record<string, string>>
/** By name of the Secret and key. */
export type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>

export const templateOf = ({ spec }: KubernetesObject): PodTemplate => spec['template'] as PodTemplate

export const matches = (selector: Labels, labels: Labels): boolean =>
  Object.entries(selector).every(([key, value]) => labels[key] === value)

export interface Pod {
  /** `writer-relational` */
  readonly component: string
  /** The words of `./sluice`. */
  readonly args: readonly string[]
  readonly environment: Readonly<Record<string, string>>
  /** The URL that a probe asks. */
  urlOf(probe: 'startupProbe' | 'livenessProbe' | 'readinessProbe'): string
  /** Runs the words in it, by default those of its role. */
  run(words?: readonly string[]): Spawned
}

export interface Pods {
  readonly all: readonly Pod[]
  /** `http://<address>:<port>` behind that port of the Service. */
  urlOf(service: string, port: string): string
}

/** Prepares a pod for each Deployment: files are in a folder of the test, and names of Services are the addresses of their pods. */
export function podsOf(rendered: Rendered, secrets: Secrets): Pods {
  const deployments = rendered.of('Deployment')
  const addresses = new Map(deployments.map(({ metadata }) => [metadata.name, loopback()]))

  function addressOf(service: KubernetesObject): string {
    const { selector } = service.spec as { selector: Labels }
    const [behind, ...more] = deployments.filter(one => matches(selector, templateOf(one).metadata.labels))
    if (behind === undefined || more.length > 0) throw new Error(`the Service ${service.metadata.name} has ${more.length + 1} Deployments`)
    return addresses.get(behind.metadata.name)!
  }
  const services = new Map(rendered.of('Service').map(service => [service.metadata.name, addressOf(service)]))

  function podOf(deployment: KubernetesObject): Pod {
    const { spec, metadata } = templateOf(deployment)
    const [container] = spec.containers
    const address = addresses.get(deployment.metadata.name)!
    const folder = temporaryFolder()
    const mounts = container.volumeMounts ?? []
    for (const { name, mountPath } of mounts) {
      const volume = spec.volumes?.find(volume => volume.name === name)
      if (volume === undefined) throw new Error(`${deployment.metadata.name} mounts ${name}, which is no volume of its pod`)
      for (const [file, text] of filesOf(volume)) {
        const path = join(folder, mountPath, file)
        mkdirSync(dirname(path), { recursive: true })
        writeFileSync(path, text, { mode: 0o440 })
      }
    }
    const here = (text: string): string => {
      if (mounts.some(({ mountPath }) => text.startsWith(`${mountPath}/`))) return join(folder, text)
      const isService = (host: string): boolean => services.has(host)
      return text
        .replace(/^0\.0\.0\.0(?=$|:)/, address)
        .replace(/(?<=^http:\/\/)[^:/]+/, host => (isService(host) ? services.get(host)! : host))
    }
    const args = container.args.map(here)
    const environment = Object.fromEntries(container.env.map(({ name, value }) => [name, here(value)]))
    return {
      component: metadata.labels['app.kubernetes.io/component']!,
      args,
      environment,
      urlOf: probe => {
        const { path, port } = container[probe].httpGet
        return `http://${address}:${portOf(container, port)}${path}`
      },
      run: (words = args) => spawnProgram(process.execPath, [join(root, 'main.ts'), ...words], environment),
    }
  }

  function filesOf({ projected, configMap }: Volume): [string, string][] {
    if (configMap !== undefined) {
      const { data } = rendered.of('ConfigMap').find(({ metadata }) => metadata.name === configMap.name)!
      return Object.entries(data!)
    }
    return (projected?.sources ?? []).map(({ secret: { name, items } }) => {
      const [{ key, path }] = items
      const text = secrets[name]?.[key]
      if (text === undefined) throw new Error(`there is no Secret ${name} with the key ${key}`)
      return [path, text]
    })
  }

  return {
    all: deployments.map(podOf),
    urlOf: (name, port) => {
      const service = rendered.of('Service').find(({ metadata }) => metadata.name === name)!
      const { ports } = service.spec as { ports: readonly { name: string; targetPort: string }[] }
      const behind = deployments.find(one => addresses.get(one.metadata.name) === services.get(name))!
      const { targetPort } = ports.find(one => one.name === port)!
      return `http://${services.get(name)}:${portOf(templateOf(behind).spec.containers[0], targetPort)}`
    },
  }
}

function portOf({ ports }: Container, name: string): number {
  return ports.find(port => port.name === name)!.containerPort
}

/** All pods have the same ports. */
function loopback(): string {
  return `127.${randomInt(1, 255)}.${randomInt(0, 255)}.${randomInt(1, 255)}`
}
