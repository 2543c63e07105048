// The chart of deploy/helm, rendered by Helm and checked by kubeconform, both built from their Go modules.

import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { parseAllDocuments, stringify } from 'yaml'
import { goServer } from '../servers/process/kept-server.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import { kubernetesSchemas, kubernetesVersions } from './kubernetes-schemas.ts'

const run = promisify(execFile)

export const chart = join(root, 'deploy/helm/sluice')

export const helm = goServer('helm', { module: 'helm.sh/helm/v3', version: 'v3.19.0', main: './cmd/helm' })
export const kubeconform = goServer('kubeconform', { module: 'github.com/yannh/kubeconform', version: 'v0.7.0', main: './cmd/kubeconform' })

/** What the tests look at. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> }
  readonly spec: Readonly<Record<string, unknown>>
  readonly data?: Readonly<Record<string, string>>
}

export interface Rendered {
  /** YAML. */
  readonly text: string
  readonly objects: readonly KubernetesObject[]
  of(kind: string): readonly KubernetesObject[]
}

/** Runs `helm lint --strict` and `helm template` as release `sluice`. @throws Error with Helm's words */
export async function render(values: object | string): Promise<Rendered> {
  const file = join(temporaryFolder(), 'values.yaml')
  await writeFile(file, typeof values === 'string' ? values : stringify(values))
  const flags = ['--values', file, '--kube-version', kubernetesVersions[0]]
  await run(helm.program(), ['lint', chart, '--strict', ...flags])
  const { stdout: text } = await run(helm.program(), ['template', 'sluice', chart, ...flags], { maxBuffer: 16 * 1024 * 1024 })
  const objects = parseAllDocuments(text).flatMap(document => (document.contents === null ? [] : [document.toJS() as KubernetesObject]))
  return { text, objects, of: kind => objects.filter(one => one.kind === kind) }
}

/** Checks against the schemas of Kubernetes and the custom resources. @throws Error with each fault */
export async function conform({ text, objects }: Rendered): Promise<void> {
  const file = join(temporaryFolder(), 'rendered.yaml')
  await writeFile(file, text)
  for (const version of kubernetesVersions) {
    const location = `${await kubernetesSchemas(version)}/{{ .ResourceKind }}{{ .KindSuffix }}.json`
    try {
      const { stdout } = await run(kubeconform.program(), ['-strict', '-summary', '-schema-location', location, file])
      // It also succeeds if it finds nothing to check.
      if (!stdout.includes(`Valid: ${objects.length}, Invalid: 0, Errors: 0, Skipped: 0`)) throw Object.assign(new Error(), { stdout })
    } catch (error) {
      throw new Error(`Kubernetes ${version}: ${(error as { stdout: string }).stdout}`, { cause: error })
    }
  }
}
