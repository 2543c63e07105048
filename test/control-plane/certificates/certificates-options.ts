// The default options of certificates.

import { Type } from 'typebox'
import { loadOptions } from '../../../config/options/options.ts'
import { type CertificatesOptions, certificatesOptions } from '../../../control-plane/certificates/options.ts'

const schema = Type.Object({ certificates: certificatesOptions })

export const ownCertificates: CertificatesOptions = loadOptions(schema, { environment: {} }).certificates
