// JSON schemas of Kubernetes' objects for kubeconform, made from the Go modules of Kubernetes, KEDA and the Prometheus operator.

import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { cachePath, makeOnce } from '../servers/install/cache.ts'
import { downloadGoModule } from '../servers/install/go.ts'

/** The oldest version that the chart supports, and a recent one. */
export const kubernetesVersions = ['v1.30.14', 'v1.34.1'] as const

const customResources = [
  { module: 'github.com/kedacore/keda/v2', version: 'v2.18.0', file: 'config/crd/bases/keda.sh_scaledobjects.yaml' },
  ...['servicemonitors', 'prometheusrules'].map(kind => ({
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.84.0',
    file: `example/prometheus-operator-crd/monitoring.coreos.com_${kind}.yaml`,
  })),
]

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly format?: string
  readonly description?: string
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
  readonly items?: Schema
  readonly 'x-kubernetes-group-version-kind'?: readonly Kind[]
  readonly 'x-kubernetes-int-or-string'?: boolean
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean
}

interface Kind {
  readonly group: string
  readonly version: string
  readonly kind: string
}

/** The folder of the schemas of that version, one file for each kind: `deployment-apps-v1.json`. */
export async function kubernetesSchemas(version: (typeof kubernetesVersions)[number]): Promise<string> {
  const folder = cachePath('kubernetes-schemas', [version, ...customResources.map(of => of.version)].join('-'))
  await makeOnce(folder, async draft => {
    await mkdir(draft)
    const elsewhere = await mkdtemp(join(tmpdir(), 'sluice-go-'))
    try {
      const kubernetes = await downloadGoModule('k8s.io/kubernetes', version, elsewhere)
      await writeKinds(draft, JSON.parse(await readFile(join(kubernetes, 'api/openapi-spec/swagger.json'), 'utf8')))
      for (const { module, version, file } of customResources) {
        const text = await readFile(join(await downloadGoModule(module, version, elsewhere), file), 'utf8')
        await writeCustomKind(draft, parse(text))
      }
    } finally {
      await rm(elsewhere, { recursive: true, force: true })
    }
  })
  return folder
}

/** Kinds of stable versions, each with the definitions that it refers to. */
async function writeKinds(folder: string, { definitions }: { definitions: Record<string, Schema> }): Promise<void> {
  for (const [name, definition] of Object.entries(definitions)) {
    const kind = definition['x-kubernetes-group-version-kind']?.[0]
    if (kind === undefined || !/^v\d+$/.test(kind.version) || kind.kind.endsWith('List')) continue
    const used = new Set<string>()
    const visit = (name: string): void => {
      if (used.has(name)) return
      used.add(name)
      for (const [, other] of JSON.stringify(definitions[name]).matchAll(/"#\/definitions\/([^"]+)"/g)) visit(other!)
    }
    visit(name)
    const closed = Object.fromEntries([...used].map(name => [name, quantitySchema(name) ?? strict(definitions[name]!)]))
    await writeFile(join(folder, fileOf(kind)), JSON.stringify({ $ref: `#/definitions/${name}`, definitions: closed }))
  }
}

interface CustomResource {
  readonly spec: {
    readonly group: string
    readonly names: { readonly kind: string }
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[]
  }
}

async function writeCustomKind(folder: string, { spec }: CustomResource): Promise<void> {
  for (const { name, schema } of spec.versions) {
    const kind = { group: spec.group, version: name, kind: spec.names.kind }
    await writeFile(join(folder, fileOf(kind)), JSON.stringify(strict(schema.openAPIV3Schema, true)))
  }
}

/** As kubeconform looks for it: a group counts up to its first dot. */
function fileOf({ group, version, kind }: Kind): string {
  return `${[kind, group.split('.')[0], version].filter(part => part !== '').join('-')}.json`.toLowerCase()
}

/** A quantity such as `500m` or `1`, which the API describes as a text. */
function quantitySchema(name: string): object | undefined {
  return name.endsWith('.api.resource.Quantity') ? { type: ['string', 'number'] } : undefined
}

/** The schema without fields that it does not name. Like the API server it takes any field of metadata, whose schema a custom resource lacks. */
function strict(schema: Schema, isCustom = false): object {
  if (schema.format === 'int-or-string' || schema['x-kubernetes-int-or-string'] === true) return { type: ['integer', 'string'] }
  const { properties, additionalProperties, items, description: _, ...rest } = schema
  const isOpen = additionalProperties !== undefined || schema['x-kubernetes-preserve-unknown-fields'] === true
  return {
    ...rest,
    ...(items === undefined ? {} : { items: strict(items, isCustom) }),
    ...(typeof additionalProperties === 'object' ? { additionalProperties: strict(additionalProperties, isCustom) } : {}),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, inner]) => [
              name,
              isCustom && name === 'metadata' ? { type: 'object' } : strict(inner, isCustom),
            ]),
          ),
          ...(isOpen ? {} : { additionalProperties: false }),
        }),
  }
}
