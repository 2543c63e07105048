// The options of a control plane whose certificates a step-ca server of the tests signs.

import type { CertificatesOptions } from '../../../../control-plane/certificates/options.ts'
import type { StepCa } from '../../../servers/step-ca.ts'
import { ownCertificates } from '../certificates-options.ts'

type Options = CertificatesOptions['stepCa']

export function stepCaOptions({ url, rootFile, provisioner, key }: StepCa, more: Partial<Options> = {}): CertificatesOptions {
  const stepCa = { url, caFile: rootFile, provisioner, key: JSON.stringify(key), timeoutMs: 60_000, ...more }
  return { ...ownCertificates, backend: 'step-ca', stepCa }
}
