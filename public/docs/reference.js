/* global SwaggerUIBundle */
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#reference",
  deepLinking: true,
  docExpansion: "list",
  // Nothing is asked of anybody else: the default sends the document to a validator on the network.
  validatorUrl: null,
});
