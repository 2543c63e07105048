// The options of a control plane whose policies are in an OpenFGA server of the tests.

import type { OpenFga } from '../../../servers/openfga.ts'

export function optionsOf({ url, key }: Pick<OpenFga, 'url' | 'key'>) {
  return { store: 'openfga', openfga: { url, key, timeoutMs: 60_000 } } as const
}
